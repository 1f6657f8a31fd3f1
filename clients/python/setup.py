"""The wheel holds a program of one platform and no extension of Python: its tag says py3-none-PLATFORM."""

import pathlib
import struct

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

PACKAGE = pathlib.Path(__file__).parent / "vramplan"


def programs():
    return sorted(p for p in PACKAGE.glob("bin/vramplan*") if p.is_file())


def is_static(path):
    """Whether an ELF program asks for no loader (PT_INTERP), and so for no libc of any release."""
    head = path.read_bytes()[:4096]
    if head[:5] != b"\x7fELF\x02" or head[5] != 1:  # 64 bits, little-endian
        return False
    (offset,) = struct.unpack_from("<Q", head, 32)
    size, number = struct.unpack_from("<HH", head, 54)
    return all(struct.unpack_from("<I", head, offset + i * size)[0] != 3 for i in range(number))


class Wheel(bdist_wheel):
    def run(self):
        for needed in ("bin/vramplan*", "sbom.cdx.json"):
            if not any(PACKAGE.glob(needed)):
                raise SystemExit(f"vramplan/{needed} is not here, and a wheel without it would be of no use: build it with make python")
        super().run()

    def get_tag(self):
        platform = super().get_tag()[2]
        # An index takes no linux_ARCH. A static program runs with any libc, so with the oldest that an index has a name for.
        if platform.startswith("linux_") and all(is_static(p) for p in programs()):
            arch = platform.removeprefix("linux_")
            platform = f"manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"
        return "py3", "none", platform


class WithProgram(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithProgram, cmdclass={"bdist_wheel": Wheel})
