"""Clean a sensor network in one call: from noisy readings with gaps to an estimate, its uncertainty and flags.

:func:`nareg.clean` reads both tables, fits a space-time model, checks the readings and compares the result with simple
methods on readings that it hid from all of them.
"""

from nareg.cleaning._apply import Applied, apply
from nareg.cleaning._clean import clean
from nareg.cleaning._clean import run as run
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._kinds import Kind as Kind
from nareg.cleaning._kinds import Wind
from nareg.cleaning._kinds import directions as directions
from nareg.cleaning._kinds import unused_kinds as unused_kinds
from nareg.cleaning._learn import CleanSettings as CleanSettings
from nareg.cleaning._learn import portion as portion
from nareg.cleaning._methods import MODEL as MODEL
from nareg.cleaning._network import ReadingsLike as ReadingsLike
from nareg.cleaning._network import StationNetwork as StationNetwork
from nareg.cleaning._network import StationsLike as StationsLike
from nareg.cleaning._network import assemble as assemble
from nareg.cleaning._network import read_known as read_known
from nareg.cleaning._report import files as files
from nareg.cleaning._report import parts as parts
from nareg.cleaning._report import render as render
from nareg.cleaning._report import write_page as write_page
from nareg.cleaning._several import append_several as append_several
from nareg.cleaning._several import folder_name as folder_name
from nareg.cleaning._several import of_other_runs as of_other_runs
from nareg.cleaning._several import several_files as several_files
from nareg.cleaning._several import several_parts as several_parts
from nareg.cleaning._words import number as number

__all__ = ["Applied", "Cleaned", "Wind", "apply", "clean"]
