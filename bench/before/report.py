"""Ratios, faults and the page of a run."""

from __future__ import annotations

from harness import contest
from harness.statistics import median_of, rounded

PARTS = {"whole": "whole job", "fill": "fill", "first": "first pass", "steady": "steady pass"}


def seconds(jobs: list[dict], job: str, variant: str, part: str) -> list[float]:
    """What the jobs of one kind took."""
    found = [each for each in jobs if (each["job"], each["variant"]) == (job, variant)]
    return [each[part] for each in found if each.get(part) is not None]


def ratio(jobs: list[dict], job: str, variant: str, part: str = "whole") -> float | None:
    """The earlier plugin's median over the variant's."""
    earlier, later = (seconds(jobs, job, each, part) for each in ("before", variant))
    return rounded(median_of(earlier) / median_of(later)) if earlier and later else None


def names(jobs: list[dict]) -> list[str]:
    """The kinds of job that were played, in order."""
    return list(dict.fromkeys(each["job"] for each in jobs))


def result(jobs: list[dict]) -> dict:
    """Whole jobs, the earlier plugin over today's, and over today's without what it does for whole queries."""
    found: dict = {name: ratio(jobs, name, "now") for name in names(jobs)}
    found |= {f"{name}_plain": ratio(jobs, name, "plain") for name in names(jobs) if name.startswith("sql")}
    return found | {"answers_equal": not any("rows" in each for each in faults(jobs))}


def faults(jobs: list[dict]) -> list[str]:
    """Jobs that died, and answers that differ."""
    found = [
        f"{each['job']}, round {each['round']}, {each['variant']}: {each['died']}" for each in jobs if each["died"]
    ]
    for name in names(jobs):
        answers = [each["rows"] for each in jobs if each["job"] == name and "rows" in each]
        if any(not same(answers[0], other) for other in answers[1:]):
            found.append(f"{name}: variants gave different rows")
    return found


def same(left: object, right: object) -> bool:
    """Whether two jobs gave the same rows, whatever their order."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            contest.same(sorted(left[key], key=repr), sorted(right[key], key=repr)) for key in left
        )
    return contest.same(left, right)


def without_rows(raw: dict) -> dict:
    """The figures alone."""
    return {**raw, "jobs": [{key: each[key] for key in each if key != "rows"} for each in raw["jobs"]]}


def readme(raw: dict, limits_mib: dict[str, int], problems: list[str]) -> str:
    """The page."""
    jobs = raw["jobs"]
    commits = sorted({each["commit"] for each in jobs if each["variant"] != "before"})
    lines = [
        "# before", "",
        f"{raw['machine']['cpu_model']}, {raw['machine']['cpus']} cores, kernel {raw['machine']['kernel']}. "
        f"Before: {raw['kept']['before']}; now: {', '.join(commits)}. `plain` is now without statistics, join filters "
        "and kernels. Ratios: before over the variant; above 1 the variant is faster.", "",
        "| job | limit, MiB | part | before, s | now, s | plain, s | now | plain |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in names(jobs):
        for part, title in PARTS.items():
            if not seconds(jobs, name, "now", part):
                continue
            cells = [listed(seconds(jobs, name, each, part)) for each in ("before", "now", "plain")]
            ratios = [str(ratio(jobs, name, each, part)) for each in ("now", "plain")]
            lines.append(f"| {name} | {limits_mib[name]} | {title} | {' | '.join([*cells, *ratios])} |")
    lines += ["", *[f"- FAULT: {each}" for each in problems]]
    return "\n".join(lines).rstrip() + "\n"


def listed(values: list[float]) -> str:
    """Each timing, in the order of the rounds."""
    return ", ".join(f"{value:.3g}" if value < 10 else f"{value:.1f}" for value in values)
