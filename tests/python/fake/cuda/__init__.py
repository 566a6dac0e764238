# SPDX-License-Identifier: Apache-2.0
"""A stand-in for NVIDIA's packages for Python: see core."""
