# SPDX-License-Identifier: Apache-2.0
from spack.package import *


class Tenure(CMakePackage):
    """A caching allocator for the memory of NVIDIA's GPUs, and tools that show who holds it."""

    homepage = "file:../../../../../README.md"
    license("Apache-2.0")
    version("1.1.0")

    variant("tools", default=True, description="the command, and the simulated device")

    depends_on("c", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("pkgconfig", type="build", when="+tools")
    depends_on("zlib-api", when="+tools")
    depends_on("yajl@2:", when="+tools")
    conflicts("platform=darwin")
    conflicts("platform=windows")

    def cmake_args(self):
        return [self.define("TNR_BUILD_TESTS", False),
                self.define_from_variant("TNR_BUILD_TOOLS", "tools")]
