"""Tables in and out: station coordinates, readings and weights as CSV, NPZ, pandas frames or MatrixMarket.

Formats
-------
stations    a row per station: ``station``, then ``latitude, longitude`` (degrees) or ``x, y``; ``altitude`` may follow
readings    wide: ``time``, then a column per station; or long: ``time, station, value``
weights     a row per station: ``station, weight``
adjacency   MatrixMarket (``.mtx``) or a ``.graph`` folder, a graph instead of coordinates

Missing is an empty cell, NA, N/A, #N/A, NaN, null, none, missing or a hyphen. Readings may be limits (``<2``) or traces
(``T``), positions angles (``49° 23' N``). Column names may also be ``id``, ``lat``, ``lng``, ``datetime``, ``date`` and the
like. Files of GHCN-Daily, ISD, ISMN, SURFRAD, USCRN, SRML, DINO, CAMELS and WaterML are recognized; they may be compressed, or
in a zip archive. Whatever is guessed beyond that is a sentence in the table's ``notes``: separators, decimal commas, numbers
such as -9999 that mean missing, the order of day and month, columns and stations that are left out. ``strict=True`` refuses
to guess.
"""

# A path becomes tables (_open): cells of a text (_text), a frame of a named format (_formats), or a table of its own library
# (_binary). All, and tables in memory, take one shape: header, sample, texts and numbers (_file, _frames). One file says which
# column is what (_layout, with the words of _vocabulary), one each what cells mean (_labels, _numbers, _times, _missing,
# _places). Tables are put together in _readings, _stations and _columns, graphs in _graphs and _convert. _write alone writes.
# A new format is a function in _formats from text to a frame.
from nareg._storage.graph_files import StoredGraph
from nareg._storage.graph_writer import GraphWriter
from nareg.io._binary import NETCDF as NETCDF
from nareg.io._columns import read_column, read_data_weight, read_weights, write_weights
from nareg.io._convert import convert
from nareg.io._counts import EARLIER as EARLIER
from nareg.io._counts import KNOWN_TIME as KNOWN_TIME
from nareg.io._counts import UNKNOWN as UNKNOWN
from nareg.io._counts import CellCounts
from nareg.io._dates import has_zone as has_zone
from nareg.io._directions import KINDS as KINDS
from nareg.io._directions import about_counters as about_counters
from nareg.io._directions import about_tens as about_tens
from nareg.io._directions import counter_of as counter_of
from nareg.io._directions import is_direction as is_direction
from nareg.io._directions import on_circle as on_circle
from nareg.io._frames import is_xarray as is_xarray
from nareg.io._graphs import read_adjacency
from nareg.io._grid import on_grid
from nareg.io._inspect import Inspection, inspect
from nareg.io._labeled import as_series as as_series
from nareg.io._labeled import in_order as in_order
from nareg.io._labeled import is_table as is_table
from nareg.io._labeled import signals_of as signals_of
from nareg.io._labeled import takes_tables as takes_tables
from nareg.io._notes import NeverRead as NeverRead
from nareg.io._notes import SeveralQuantities as SeveralQuantities
from nareg.io._notes import count as count
from nareg.io._notes import listed as listed
from nareg.io._notes import stations_named as stations_named
from nareg.io._open import alike as alike
from nareg.io._quantities import resolution as resolution
from nareg.io._readings import read_readings, readings_from_frame, readings_to_frame
from nareg.io._readings import read_shared as read_shared
from nareg.io._recipe import Recipe
from nareg.io._stations import NoPlaces as NoPlaces
from nareg.io._stations import read_stations, stations_from_frame
from nareg.io._tables import Readings, Stations
from nareg.io._text import read_rows
from nareg.io._text import rows as rows
from nareg.io._text import unshield as unshield
from nareg.io._times import either_order as either_order
from nareg.io._times import instants as instants
from nareg.io._times import months_of as months_of
from nareg.io._vocabulary import distinct as distinct
from nareg.io._write import as_lines as as_lines
from nareg.io._write import write_bytes as write_bytes
from nareg.io._write import write_readings, write_rows

__all__ = [
    "CellCounts",
    "GraphWriter",
    "Inspection",
    "Readings",
    "Recipe",
    "Stations",
    "StoredGraph",
    "convert",
    "inspect",
    "on_grid",
    "read_adjacency",
    "read_column",
    "read_data_weight",
    "read_readings",
    "read_rows",
    "read_stations",
    "read_weights",
    "readings_from_frame",
    "readings_to_frame",
    "stations_from_frame",
    "write_readings",
    "write_rows",
    "write_weights",
]
