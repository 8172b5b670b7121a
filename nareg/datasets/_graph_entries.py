"""Registry entries of the node classification data sets."""

from __future__ import annotations

from typing import Any

from nareg.datasets._info import DatasetInfo

_PLANETOID: dict[str, Any] = {
    "source": "repository kimiyoung/planetoid, the fixed public split",
    "license": "not stated by the source (code: MIT)",
    "citation": "Sen et al. 2008; Yang, Cohen, Salakhutdinov 2016",
}
_GEOM: dict[str, Any] = {
    "source": "repository graphdml-uiuc-jlu/geom-gcn, ten fixed splits of 48 / 32 / 20 %",
    "license": "not stated by the source",
    "citation": "Pei et al. 2020, Geom-GCN",
}
_TWINS = "Cornell and Texas have the same feature and label file in the source: they are not independent evidence"
_SHCHUR: dict[str, Any] = {
    "source": "repository shchur/gnn-benchmark, repackaged by EdisonLeeeee/GraphData",
    "license": "MIT (repackaging)",
    "citation": "Shchur et al. 2018, Pitfalls of graph neural network evaluation",
}
_ATTACK: dict[str, Any] = {
    "source": "repositories ChandlerBang/Pro-GNN (split, 25 %) and SongtaoLiu0823/GADC (clean, 25, 50 and 75 %)",
    "license": "not stated by the sources",
    "citation": "Jin et al. 2020, Pro-GNN; Zügner, Günnemann 2019, Metattack",
}
_OGB: dict[str, Any] = {
    "license": "ODC-BY (arxiv, papers100M), Amazon license (products)",
    "citation": "Hu et al. 2020, Open Graph Benchmark",
}
_PLATONOV: dict[str, Any] = {
    "source": "repository yandex-research/heterophilous-graphs, ten fixed splits of 50 / 25 / 25 %",
    "license": "MIT",
    "citation": "Platonov et al. 2023, A critical look at the evaluation of GNNs under heterophily",
}
_PUBMED = "planetoid/pubmed.npz"
_PUBMED_DIGEST = "arrays:366df9cc13d914f3eda21425d3f955f590e7549d077f074065e8f989a3dbd277"


def _ogb(folder: str, split: str, *, binary: bool = False) -> dict[str, str | None]:
    raw = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz") if not binary else ("data.npz", "node-label.npz")
    parts = ("train", "valid", "test")
    files = [f"{folder}/raw/{name}" for name in raw] + [f"{folder}/split/{split}/{name}.csv.gz" for name in parts]
    return dict.fromkeys(files)


ENTRIES = (
    DatasetInfo(
        name="cora",
        title="Cora citations",
        size="0.1 MB",
        shape="2,708 nodes, 5,278 edges, 1,433 binary features, 7 classes",
        files={"planetoid/cora.npz": "arrays:01e125d97e5eb93901e62f7979c44628462e5e9467d01d1519538a2f480147f2"},
        **_PLANETOID,
    ),
    DatasetInfo(
        name="citeseer",
        title="Citeseer citations",
        size="0.2 MB",
        shape="3,327 nodes (15 without label and features), 4,552 edges, 3,703 binary features, 6 classes",
        files={"planetoid/citeseer.npz": "arrays:81fd54a1d88172f2e6b57c6cc79b64bbeed9e397510476d3a28b2a719f2ee8b9"},
        notes=("48 nodes have no edge", "15 nodes are in no split; their label is -1 here (0 in some copies)"),
        **_PLANETOID,
    ),
    DatasetInfo(
        name="pubmed",
        title="Pubmed citations",
        size="4.8 MB",
        shape="19,717 nodes, 44,324 edges, 500 TF-IDF features, 3 classes",
        files={_PUBMED: _PUBMED_DIGEST},
        **_PLANETOID,
    ),
    DatasetInfo(
        name="cornell",
        title="Cornell web pages",
        size="26 kB",
        shape="183 nodes, 277 edges, 1,703 binary features, 5 classes",
        files={"heterophily/cornell.npz": "arrays:a0721a13f6288e82ca1bb2374bf7278852d7a8ef34a297378861a88e482baa93"},
        notes=(_TWINS,),
        **_GEOM,
    ),
    DatasetInfo(
        name="texas",
        title="Texas web pages",
        size="27 kB",
        shape="183 nodes, 279 edges, 1,703 binary features, 5 classes",
        files={"heterophily/texas.npz": "arrays:7adb09683dba085c111c8a52d42ecf74e501eefaade272fe657e941f10ac8106"},
        notes=(_TWINS,),
        **_GEOM,
    ),
    DatasetInfo(
        name="wisconsin",
        title="Wisconsin web pages",
        size="39 kB",
        shape="251 nodes, 450 edges, 1,703 binary features, 5 classes",
        files={"heterophily/wisconsin.npz": "arrays:f4190d3bb03e2584246108c1a74d0821d4478e4186af0e0cceb6b0a668d90cd3"},
        **_GEOM,
    ),
    DatasetInfo(
        name="actor",
        title="Actor co-occurrence",
        size="0.3 MB",
        shape="7,600 nodes, 26,659 edges, 932 binary features, 5 classes",
        files={"heterophily/actor.npz": "arrays:99711c9f72a3a444fcf283ba39524230b406defa842ca6e505dece10335f27a1"},
        **_GEOM,
    ),
    DatasetInfo(
        name="amazon-photo",
        title="Amazon Photo co-purchases",
        size="2.0 MB",
        shape="7,650 nodes, 119,081 edges, 745 binary features, 8 classes",
        files={"amazon_coauthor/amazon_photo.npz": "arrays:15d8598e4113b83c5c77346068dc32a5b5d5f483ae1a9cdf341880c70186a3a8"},
        **_SHCHUR,
    ),
    DatasetInfo(
        name="coauthor-cs",
        title="Coauthor CS",
        size="2.5 MB",
        shape="18,333 nodes, 81,894 edges, 6,805 word counts, 15 classes",
        files={"amazon_coauthor/coauthor_cs.npz": "arrays:7a4de027fbb642455ac384f8f85e2e4af2f939e254a91a04ba935ec22fcca224"},
        **_SHCHUR,
    ),
    DatasetInfo(
        name="coauthor-physics",
        title="Coauthor Physics",
        size="3.4 MB",
        shape="34,493 nodes, 247,962 edges, 8,415 word counts, 5 classes",
        files={
            "amazon_coauthor/coauthor_physics.npz": "arrays:af47769e90a8f61160f73620443449c1c43331285c8ec40a14164c35a4e78fe4"
        },
        **_SHCHUR,
    ),
    DatasetInfo(
        name="metattack-cora",
        title="Cora, largest component, and its graph after Metattack",
        size="0.2 MB",
        shape="2,485 nodes, 5,069 edges (clean), 1,433 features, 7 classes; attacks of 25, 50 and 75 %",
        files={"metattack/cora.npz": "arrays:79d8674f2310ae63697940964aa595c35c86e192fc13b42bce1ac4223b31cbfe"},
        **_ATTACK,
    ),
    DatasetInfo(
        name="metattack-citeseer",
        title="Citeseer, largest component, and its graph after Metattack",
        size="0.2 MB",
        shape="2,110 nodes, 3,668 edges (clean), 3,703 features, 6 classes; attacks of 25, 50 and 75 %",
        files={"metattack/citeseer.npz": "arrays:c89c165d5ec80dbe953a0ac1b20cd1294add2bf0790f9700f009ec86efeb2629"},
        **_ATTACK,
    ),
    DatasetInfo(
        name="metattack-pubmed",
        title="Pubmed and its graph after Metattack",
        size="6.4 MB",
        shape="19,717 nodes, 44,324 edges (clean), 500 features, 3 classes; attacks of 25, 50 and 75 %",
        files={
            "metattack/pubmed.npz": "arrays:e958341b530959eb86bd9af9c6e647f9753c47f9e01203d6e829bd95b0a90547",
            _PUBMED: _PUBMED_DIGEST,
        },
        **_ATTACK,
    ),
    DatasetInfo(
        name="ogbn-arxiv",
        title="ogbn-arxiv citations",
        size="about 90 MB",
        source="Open Graph Benchmark, raw CSV files",
        shape="169,343 nodes, 1,166,243 directed edges (joined whichever way they point), 128 features, 40 classes",
        files=_ogb("ogbn_arxiv", "time"),
        how_to_get="run `nareg datasets fetch ogbn-arxiv`, or unpack OGB's arxiv.zip and name its folder ogbn_arxiv",
        **_OGB,
    ),
    DatasetInfo(
        name="ogbn-products",
        title="ogbn-products co-purchases",
        size="about 1.4 GB",
        source="Open Graph Benchmark, raw CSV files",
        shape="2,449,029 nodes, 61,859,140 edges, 100 features, 47 classes",
        files=_ogb("ogbn_products", "sales_ranking"),
        how_to_get="run `nareg datasets fetch ogbn-products`, or unpack OGB's products.zip and name its folder ogbn_products",
        **_OGB,
    ),
    DatasetInfo(
        name="ogbn-papers100M",
        title="ogbn-papers100M (a user's own download)",
        source="Open Graph Benchmark, raw arrays",
        shape="111,059,956 nodes, 1,615,685,872 directed edges (joined whichever way they point), 128 features, 172 classes",
        files=_ogb("ogbn_papers100M", "time", binary=True),
        how_to_get="unpack OGB's papers100M-bin.zip and name its folder ogbn_papers100M",
        notes=("needs about 200 GiB of memory",),
        **_OGB,
    ),
    DatasetInfo(
        name="flickr",
        title="Flickr images",
        size="about 370 MB",
        source="GraphSAINT's copy, Flickr: adj_full.npz, feats.npy, class_map.json and role.json",
        shape="89,250 nodes, 449,878 edges, 500 features, 7 classes",
        files=dict.fromkeys(f"flickr/{name}" for name in ("adj_full.npz", "feats.npy", "class_map.json", "role.json")),
        license="not stated by the source",
        citation="Zeng et al. 2020, GraphSAINT; McAuley, Leskovec 2012",
        how_to_get="run `nareg datasets fetch flickr`, or download the folder Flickr that the repository GraphSAINT/GraphSAINT "
        "points to and name it flickr",
    ),
    DatasetInfo(
        name="amazon-ratings",
        title="Amazon ratings of products bought together",
        size="up to 50 MB",
        shape="24,492 nodes, 93,050 edges, 300 features, 5 classes",
        files={"heterophilous/amazon_ratings.npz": None},
        how_to_get="run `nareg datasets fetch amazon-ratings`, or put data/amazon_ratings.npz of repository "
        "yandex-research/heterophilous-graphs in folder heterophilous",
        **_PLATONOV,
    ),
    DatasetInfo(
        name="roman-empire",
        title="Words of the article on the Roman Empire",
        size="up to 50 MB",
        shape="22,662 nodes, 32,927 edges, 300 features, 18 classes",
        files={"heterophilous/roman_empire.npz": None},
        how_to_get="run `nareg datasets fetch roman-empire`, or put data/roman_empire.npz of repository "
        "yandex-research/heterophilous-graphs in folder heterophilous",
        **_PLATONOV,
    ),
)
