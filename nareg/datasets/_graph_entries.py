"""Registry entries of the node classification data sets."""

from __future__ import annotations

from typing import Any

from nareg.datasets._info import DatasetInfo

_PREPARE = "prepare it from its source as data/README.md says"
_PLANETOID: dict[str, Any] = {
    "source": "repository kimiyoung/planetoid, the fixed public split",
    "license": "not stated by the source (code: MIT)",
    "citation": "Sen et al. 2008; Yang, Cohen, Salakhutdinov 2016",
    "how_to_get": _PREPARE,
}
_GEOM: dict[str, Any] = {
    "source": "repository graphdml-uiuc-jlu/geom-gcn, ten fixed splits of 48 / 32 / 20 %",
    "license": "not stated by the source",
    "citation": "Pei et al. 2020, Geom-GCN",
    "how_to_get": _PREPARE,
}
_TWINS = "Cornell and Texas have the same feature and label file in the source: they are not independent evidence"
_SHCHUR: dict[str, Any] = {
    "source": "repository shchur/gnn-benchmark, repackaged by EdisonLeeeee/GraphData",
    "license": "MIT (repackaging)",
    "citation": "Shchur et al. 2018, Pitfalls of graph neural network evaluation",
    "how_to_get": _PREPARE,
}
_ATTACK: dict[str, Any] = {
    "source": "repositories ChandlerBang/Pro-GNN (split, 25 %) and SongtaoLiu0823/GADC (clean, 25, 50 and 75 %)",
    "license": "not stated by the sources",
    "citation": "Jin et al. 2020, Pro-GNN; Zügner, Günnemann 2019, Metattack",
    "how_to_get": _PREPARE,
}
_OGB: dict[str, Any] = {
    "license": "ODC-BY (arxiv, papers100M), Amazon license (products)",
    "citation": "Hu et al. 2020, Open Graph Benchmark",
}
_PUBMED = "planetoid/pubmed.npz"
_PUBMED_SHA = "6ff3b2c671c37e8b870497e473435d7844323f3ae7e92eae121e32df11a965c0"


def _ogb(folder: str, split: str, *, binary: bool = False) -> dict[str, str | None]:
    raw = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz") if not binary else ("data.npz", "node-label.npz")
    parts = ("train", "valid", "test")
    files = [f"{folder}/raw/{name}" for name in raw] + [f"{folder}/split/{split}/{name}.csv.gz" for name in parts]
    return dict.fromkeys(files)


ENTRIES = (
    DatasetInfo(
        name="cora",
        title="Cora citations",
        shape="2,708 nodes, 5,278 edges, 1,433 binary features, 7 classes",
        files={"planetoid/cora.npz": "5abd840d71eb29b2e1d373d9299fe77ed331d84907d047ce58c0e6d1d840fee0"},
        **_PLANETOID,
    ),
    DatasetInfo(
        name="citeseer",
        title="Citeseer citations",
        shape="3,327 nodes (15 without label and features), 4,552 edges, 3,703 binary features, 6 classes",
        files={"planetoid/citeseer.npz": "2e74e5e6de56c911a403c851489a1c416d237354d886a0fe1d1f62ce1f0b34cf"},
        notes=("48 nodes have no edge", "15 nodes are in no split; their label is -1 here (0 in some copies)"),
        **_PLANETOID,
    ),
    DatasetInfo(
        name="pubmed",
        title="Pubmed citations",
        shape="19,717 nodes, 44,324 edges, 500 TF-IDF features, 3 classes",
        files={_PUBMED: _PUBMED_SHA},
        **_PLANETOID,
    ),
    DatasetInfo(
        name="cornell",
        title="Cornell web pages",
        shape="183 nodes, 277 edges, 1,703 binary features, 5 classes",
        files={"heterophily/cornell.npz": "80b71ecd6d77381d170eb1c3700820984d17fff7a13d790f64202b748e346bdc"},
        notes=(_TWINS,),
        **_GEOM,
    ),
    DatasetInfo(
        name="texas",
        title="Texas web pages",
        shape="183 nodes, 279 edges, 1,703 binary features, 5 classes",
        files={"heterophily/texas.npz": "12c43a5a17c35f61090a79d6d022b4b462597c831f2507af1a7320ebf7337204"},
        notes=(_TWINS,),
        **_GEOM,
    ),
    DatasetInfo(
        name="wisconsin",
        title="Wisconsin web pages",
        shape="251 nodes, 450 edges, 1,703 binary features, 5 classes",
        files={"heterophily/wisconsin.npz": "5b273d67f6b632bbfbf8ed495b580cb20270b93425075cce8a6100d968896710"},
        **_GEOM,
    ),
    DatasetInfo(
        name="actor",
        title="Actor co-occurrence",
        shape="7,600 nodes, 26,659 edges, 932 binary features, 5 classes",
        files={"heterophily/actor.npz": "36a94900fe14641b874ae8c167589fcf3432c50acc444dfe14899200d68532a7"},
        **_GEOM,
    ),
    DatasetInfo(
        name="amazon-photo",
        title="Amazon Photo co-purchases",
        shape="7,650 nodes, 119,081 edges, 745 binary features, 8 classes",
        files={"amazon_coauthor/amazon_photo.npz": "cd13b6dd9d1b76310425413d3537e1f49e4bfe35dfa285494c5d112d529aa6ae"},
        **_SHCHUR,
    ),
    DatasetInfo(
        name="coauthor-cs",
        title="Coauthor CS",
        shape="18,333 nodes, 81,894 edges, 6,805 word counts, 15 classes",
        files={"amazon_coauthor/coauthor_cs.npz": "552e5e1f8cacfa82b4aedfe833b9f1ac2fde22182621403fcdad8d6a730c365b"},
        **_SHCHUR,
    ),
    DatasetInfo(
        name="coauthor-physics",
        title="Coauthor Physics",
        shape="34,493 nodes, 247,962 edges, 8,415 word counts, 5 classes",
        files={"amazon_coauthor/coauthor_physics.npz": "996372ddbe82f2af848549f7858226ec8085e4b1ffd95dc9aa2c37dc1b3914a4"},
        **_SHCHUR,
    ),
    DatasetInfo(
        name="metattack-cora",
        title="Cora, largest component, and its graph after Metattack",
        shape="2,485 nodes, 5,069 edges (clean), 1,433 features, 7 classes; attacks of 25, 50 and 75 %",
        files={"metattack/cora.npz": "1b85b0523ac06a3e4f6f290f7aa1d105e69d42d5b83780d4e686017798125002"},
        **_ATTACK,
    ),
    DatasetInfo(
        name="metattack-citeseer",
        title="Citeseer, largest component, and its graph after Metattack",
        shape="2,110 nodes, 3,668 edges (clean), 3,703 features, 6 classes; attacks of 25, 50 and 75 %",
        files={"metattack/citeseer.npz": "da56870c4021e75438943d033c26a5831281ac5f1a2fc6ad8abf7477936051f5"},
        **_ATTACK,
    ),
    DatasetInfo(
        name="metattack-pubmed",
        title="Pubmed and its graph after Metattack",
        shape="19,717 nodes, 44,324 edges (clean), 500 features, 3 classes; attacks of 25, 50 and 75 %",
        files={
            "metattack/pubmed.npz": "7f466b42101e609fa683d1e4db0ae498a70adcbb5994af7d1a50598471019034",
            _PUBMED: _PUBMED_SHA,
        },
        **_ATTACK,
    ),
    DatasetInfo(
        name="ogbn-arxiv",
        title="ogbn-arxiv (a user's own download)",
        source="Open Graph Benchmark, raw CSV files",
        shape="169,343 nodes, 1,166,243 directed edges (joined whichever way they point), 128 features, 40 classes",
        files=_ogb("ogbn_arxiv", "time"),
        how_to_get="unpack OGB's arxiv.zip and name its folder ogbn_arxiv",
        **_OGB,
    ),
    DatasetInfo(
        name="ogbn-products",
        title="ogbn-products (a user's own download)",
        source="Open Graph Benchmark, raw CSV files",
        shape="2,449,029 nodes, 61,859,140 edges, 100 features, 47 classes",
        files=_ogb("ogbn_products", "sales_ranking"),
        how_to_get="unpack OGB's products.zip and name its folder ogbn_products",
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
        title="Flickr images (a user's own download)",
        source="GraphSAINT's copy, Flickr: adj_full.npz, feats.npy, class_map.json and role.json",
        shape="89,250 nodes, 449,878 edges, 500 features, 7 classes",
        files=dict.fromkeys(f"flickr/{name}" for name in ("adj_full.npz", "feats.npy", "class_map.json", "role.json")),
        license="not stated by the source",
        citation="Zeng et al. 2020, GraphSAINT; McAuley, Leskovec 2012",
        how_to_get="download the folder Flickr that the repository GraphSAINT/GraphSAINT points to and name it flickr",
    ),
)
