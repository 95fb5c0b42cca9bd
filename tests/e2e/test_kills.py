"""kill -9 at any moment of all that a daemon does, and of its start."""

from __future__ import annotations

import pytest

from campaign import Campaign
from daemon import TIRELESS


@pytest.mark.parametrize("kills, while_starting, seed", [
    (12, 2, 0),
    # 500 in all, of which each hundred can be run by itself.
    *(pytest.param(100, 10, seed, marks=pytest.mark.full("kills")) for seed in range(1, 6)),
])
def test_kill_9_at_any_moment(start_daemon, graph_folder, other_folder, typed_folder, tmp_path,
                              tell, kills, while_starting, seed):
    daemon = start_daemon(*TIRELESS)
    campaign = Campaign(daemon, graph_folder, other_folder, typed_folder, tmp_path / "exports",
                        seed, daemon.kill)
    tell(f"seed {seed}: {campaign.run(kills, while_starting)}")
