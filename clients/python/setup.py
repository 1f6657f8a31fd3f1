"""The wheel holds a program of one platform and no extension of Python: its tag says py3-none-PLATFORM."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class WithProgram(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithProgram, cmdclass={"bdist_wheel": Wheel})
