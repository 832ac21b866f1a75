"""Reads the files that `tests/arrow/python.rs` left in a folder with pyarrow and pandas, and compares. Leaves there what
pandas makes of them, for the test that reads it.

python read_back.py FOLDER
"""

import json
import pathlib
import sys
import zlib

import numpy
import pandas
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

DTYPES = {"f32": "float32", "i32": "int32", "u8": "uint8", "u32": "uint32", "u64": "uint64"}


def values(column):
    """A column as an array, `[frames, *shape]`."""
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pyarrow.ChunkedArray) else array
    if isinstance(array, pyarrow.FixedShapeTensorArray):
        return array.to_numpy_ndarray()
    return array.to_numpy(zero_copy_only=False)


def check_columns(table, wanted):
    for column in wanted["columns"]:
        array, name = values(table[column["name"]]), column["name"]
        assert array.dtype == DTYPES[column["dtype"]], (name, array.dtype)
        assert array.shape == (wanted["frames"], *column["shape"]), (name, array.shape)
        assert zlib.crc32(numpy.ascontiguousarray(array).tobytes()) == column["crc"], name


def followed(frame, name):
    """Bytes of what followed the last frames, field by field."""
    fields = [column for column in frame.columns if column == name or column.startswith(name + ".")]
    return [b"".join(numpy.asarray(row[field]).tobytes() for field in fields) for _, row in frame.iterrows()]


def check_episodes(frames, wanted):
    assert (frames.terminated == (frames.end >= 128)).all() and (frames.truncated == (frames.end % 128 > 0)).all()
    last = frames[frames.episode_complete.notna()]
    assert len(last) == len(wanted) == frames.trajectory.nunique()
    counts, sums = frames.groupby("trajectory").size(), frames.groupby("trajectory").reward.sum()
    for (_, row), observation, episode in zip(last.iterrows(), followed(last, "last_observation"), wanted):
        whole = episode["complete"] and not episode["beheaded"]
        assert row.trajectory == episode["id"] and counts[row.trajectory] == episode["frames"]
        assert row.episode_complete == episode["complete"] and row.episode_end == episode["end"]
        assert abs(sums[row.trajectory] - episode["sum"]) < 1e-3
        assert row.episode_return == episode["sum"] if whole else pandas.isna(row.episode_return)
        assert row.episode_length == row.step + 1 if episode["complete"] else pandas.isna(row.episode_length)
        assert pandas.isna(row.episode_first_version) != whole
        assert zlib.crc32(observation) == episode["followed"]


def main(folder):
    read = 0
    for description in sorted(folder.glob("*.json")):
        wanted = json.loads(description.read_text())
        parquet, arrow = description.with_suffix(".parquet"), description.with_suffix(".arrow")
        for table in [pyarrow.parquet.read_table(parquet), pyarrow.ipc.open_file(arrow).read_all()]:
            assert table.num_rows == wanted["frames"]
            check_columns(table, wanted)
            check_episodes(table.to_pandas(), wanted["episodes"])
        frames = pandas.read_parquet(parquet)
        check_episodes(frames, wanted["episodes"])
        frames.to_parquet(description.with_suffix(".pandas"), index=False)
        read += 1
    assert read >= 2, f"{read} descriptions in {folder}"
    print(f"pyarrow {pyarrow.__version__} and pandas {pandas.__version__} read the files of {read} buffers")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
