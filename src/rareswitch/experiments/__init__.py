"""Evidence: experiments as data, runs on all cores, statistics, claims, figures, a report."""

from pathlib import Path

# The experiments of the paper by name, in the order of the report: the files of the folder.
PAPER = {
    path.stem.partition("-")[2]: path
    for path in sorted((Path(__file__).parent / "paper").glob("*.toml"))
}
# The comparison with other methods, in many worlds: the name of all its experiments, and its file.
FIELD = "field"
FIELD_SPEC = Path(__file__).parent / "field.toml"
