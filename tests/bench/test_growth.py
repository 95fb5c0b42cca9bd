from growth import Graph, per_node, rows_of
from sizes import GIB, MIB

RUN = {"explain_seconds": 2.0, "first_batch_seconds": 3.5, "epoch_seconds": 10.0,
       "rows": 20_000_000, "read_bytes": 512 * MIB, "plan_bytes": 0, "peak_bytes": 600_000_000,
       "cache_bytes": 100_000_000, "bound_bytes": 900_000_000}


def test_memory_a_node_leaves_out_the_cache():
    assert per_node(RUN, 10_000_000) == 50


def test_a_strategy_without_figures_has_no_line():
    figures = {"generated": {"seconds": 100.0, "written_bytes": 4 * GIB}, "ginex": RUN}
    rows = rows_of(Graph(nodes=10_000_000, train_nodes=1000), figures)
    assert [row[:4] for row in rows] == [["10,000,000", "ginex", "100", "1.4"]]
    assert rows[0][-3:] == ["572", "50.0", "1.50"]


def test_room_is_asked_for_the_dataset_and_the_pairs_that_are_sorted():
    graph = Graph(nodes=1_000_000, train_nodes=1000)
    assert graph.edges == 14_400_000
    assert graph.dataset_bytes == 276_000_000 + 4 * graph.edges
    assert graph.disk_bytes - graph.dataset_bytes == 8 * graph.edges
