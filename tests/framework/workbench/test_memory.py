"""Free memory is what the system and all control groups around a process leave."""

from pathlib import Path

from thalweg.workbench import memory


def test_limits_hold_of_all_control_groups_around_a_process(tmp_path, monkeypatch):
    inner = tmp_path / "memory/jobs/7"
    inner.mkdir(parents=True)
    for folder, limit in ((inner, 5000), (inner.parent, 4000)):
        (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (folder / "memory.usage_in_bytes").write_text("3000\n")
    (inner.parent / "memory.stat").write_text("inactive_file 7\ntotal_inactive_file 500\n")
    content = memory._content

    def of(path):
        own = path == Path("/proc/self/cgroup")
        return "4:memory:/jobs/7\n2:cpu,cpuacct:/\n0::/\n" if own else content(path)

    monkeypatch.setattr(memory, "_content", of)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert memory.available_memory() == 4000 - 3000 + 500
