"""Broken traces: each fault is told with file, line, column and value."""

import numpy as np
import pytest

from pipeline.schema import ConfigError
from pipeline.work.trace import read_trace

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:17:03.9799600,374,44\n"
LATER = "2023-11-16 18:17:04,20,0\n"


def written(tmp_path, text: str | bytes):
    path = tmp_path / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        HEAD + ROW + LATER,
        (HEAD + ROW + LATER).removesuffix("\n"),
        "\ufeff" + HEAD + ROW + LATER,
        (HEAD + ROW + LATER).replace("\n", "\r\n"),
        HEAD + ROW + LATER.replace("04,", "04.0,"),
        HEAD + ROW + LATER.replace("04,", "03.97996,"),
        HEAD + ROW.replace("9799600", "0") + LATER.replace("04,", "03,"),
    ],
)
def test_a_sound_trace_is_read(tmp_path, text):
    trace = read_trace(written(tmp_path, text))
    assert trace.prompts.tolist() == [374, 20] and trace.generated.tolist() == [44, 0]
    assert trace.prompts.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        (HEAD, "has no requests"),
        ("\ufeff" + HEAD, "has no requests"),
        (ROW, "line 1: the columns are '2023-11-16"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens,Model\n" + ROW, "line 1: the columns are"),
        ("TIMESTAMP,ContextTokens,ContextTokens\n" + ROW, "line 1: the columns are"),
        ("ContextTokens,TIMESTAMP,GeneratedTokens\n" + ROW, "line 1: the columns are"),
        (HEAD + "2748 610\n", "line 2: '2748 610' has 1 cells"),
        (HEAD + ROW + "2023-11-16 18:17:04,374\n", "line 3: '2023-11-16 18:17:04,374' has 2 cells"),
        (HEAD + "2023-11-16 18:17:04,374,4,\n", "line 2: '2023-11-16 18:17:04,374,4,' has 4 cells"),
        (HEAD + "\n" + ROW, "line 2: '' has 1 cells"),
        (HEAD + ROW + "\n", "line 3: '' has 1 cells"),
        (HEAD + "2023-11-16 18:17:04,NaN,4\n", "line 2, ContextTokens='NaN'"),
        (HEAD + "2023-11-16 18:17:04,1e400,4\n", "line 2, ContextTokens='1e400'"),
        (HEAD + f"2023-11-16 18:17:04,{'9' * 30},4\n", f"line 2, ContextTokens='{'9' * 30}'"),
        (HEAD + "2023-11-16 18:17:04,-5,4\n", "line 2, ContextTokens='-5'"),
        (HEAD + "2023-11-16 18:17:04,0,4\n", "line 2, ContextTokens='0': must be a whole number from 1 to 1048576"),
        (HEAD + "2023-11-16 18:17:04,12.0,4\n", "line 2, ContextTokens='12.0'"),
        (HEAD + "2023-11-16 18:17:04,1_000,4\n", "line 2, ContextTokens='1_000'"),
        (HEAD + "2023-11-16 18:17:04,010,4\n", "line 2, ContextTokens='010'"),
        (HEAD + "2023-11-16 18:17:04, 10,4\n", "line 2, ContextTokens=' 10'"),
        (HEAD + "2023-11-16 18:17:04,\u0661\u0662,4\n", "line 2, ContextTokens="),
        (HEAD + "2023-11-16 18:17:04,1048577,4\n", "line 2, ContextTokens='1048577'"),
        (HEAD + "2023-11-16 18:17:04,10,\n", "line 2, GeneratedTokens=''"),
        (HEAD + '2023-11-16 18:17:04,10,"4"\n', "line 2, GeneratedTokens='\"4\"'"),
        (HEAD + "NaN,10,4\n", "line 2, TIMESTAMP='NaN'"),
        (HEAD + "1700158623979960,10,4\n", "line 2, TIMESTAMP='1700158623979960'"),
        (HEAD + "2023-02-30 18:17:04,10,4\n", "line 2, TIMESTAMP='2023-02-30 18:17:04'"),
        (HEAD + LATER + ROW, "line 3, TIMESTAMP=2023-11-16 18:17:03.9799600: is before the request above it"),
        (
            HEAD + ROW.replace("9799600", "1") + LATER.replace("04,", "03.09,"),
            "line 3, TIMESTAMP=2023-11-16 18:17:03.09",
        ),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_anything_else_is_refused_with_its_place(tmp_path, text, told):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_trace(path)
    (line,) = refused.value.lines
    assert line.startswith(str(path)) and told.replace("\n", " ") in line


def test_a_trace_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.csv: cannot be read"):
        read_trace(tmp_path / "gone.csv")
