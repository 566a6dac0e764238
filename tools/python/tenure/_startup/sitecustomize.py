# SPDX-License-Identifier: Apache-2.0
"""Python runs this before a program that Tenure is put under: this folder is then the first in
PYTHONPATH. See _under.py, beside the folder.

The program must not notice. So the folder is taken out of sys.path again, and the program's own
`sitecustomize` comes next, as if Python had found it. Children inherit PYTHONPATH. This file runs
in any Python that the program starts, however old, so it is written for all of them.
"""
import os
import sys


def _begin(here):
    import importlib.util  # not before it is known that there is one

    path = os.path.join(os.path.dirname(here), "_under.py")
    spec = importlib.util.spec_from_file_location("_tenure_under", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.begin()


def _hand_on():
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_path for _path in sys.path if os.path.abspath(_path or ".") != _here]
if sys.version_info >= (3, 8):
    try:
        _begin(_here)
    except Exception as _error:  # the program runs, whatever this is
        sys.stderr.write("tenure: Tenure cannot be put under this Python: %r\n" % (_error,))
    _hand_on()
