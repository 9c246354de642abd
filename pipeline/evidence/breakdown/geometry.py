"""What the cost of a stage follows from: the shapes of a layer and where the tokens of a step stand."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.schema import Engine, Kind, Model
from pipeline.work.schedule import Step

FLOAT32 = 4
ELEMENT = {"bf16": 2, "fp32": 4}
SCALE_GROUP = 64  # channels that share a scale byte in fp8_ds_mla


@dataclass(frozen=True)
class Geometry:
    """A layer of this kind on one rank."""

    model: Model
    engine: Engine  # resolved
    kind: Kind
    fp8_weights: bool = False  # those that a checkpoint has in fp8 are multiplied in fp8
    gathered: bool = False  # what the step attends is copied into one workspace first

    @property
    def heads(self) -> int:
        return self.model.heads // self.engine.tp

    @property
    def element(self) -> int:
        return ELEMENT[self.engine.dtype]

    @property
    def weight(self) -> int:
        """Bytes of an element of the matrices that may be fp8."""
        return 1 if self.fp8_weights else self.element

    @property
    def latent(self) -> int:
        """Width of o between the grouped and the last projection."""
        return self.model.o_groups // self.engine.tp * self.model.o_lora_rank

    @property
    def ratio(self) -> int:
        return self.model.ratio(self.kind)

    @property
    def entry(self) -> int:
        """Bytes of a row of the window and main caches; 584 in fp8_ds_mla at 448 + 64 channels."""
        if self.engine.kv_layout == "plain":
            return self.model.head_dim * self.element
        nope = self.model.head_dim - self.model.rope_dim
        return nope + 2 * self.model.rope_dim + -(-nope // SCALE_GROUP // 8) * 8

    @property
    def index_entry(self) -> int:
        """Bytes of a row of the index cache; 132 in fp8 at 128 channels."""
        if self.engine.index_layout == "plain":
            return self.model.index_dim * self.element
        return self.model.index_dim + FLOAT32

    @property
    def streams(self) -> list[tuple[int, int]]:
        """(channels, bytes of a finished entry) of each compressor."""
        both = [(self.model.head_dim, self.entry), (self.model.index_dim, self.index_entry)]
        return both[: {"swa": 0, "hca": 1, "csa": 2}[self.kind]]


@dataclass(frozen=True, eq=False)
class Lengths:
    """Where the tokens of a step stand."""

    starts: np.ndarray  # int [R], tokens of each request before the step
    tokens: np.ndarray  # int [R], its tokens in the step

    @classmethod
    def of(cls, step: Step) -> "Lengths":
        starts, tokens = np.array([(chunk.start, chunk.tokens) for chunk in step.chunks]).T
        return cls(starts, tokens)

    @property
    def rows(self) -> int:
        return int(self.tokens.sum())

    @cached_property
    def request(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.tokens)), self.tokens)

    @cached_property
    def positions(self) -> np.ndarray:
        first = np.cumsum(self.tokens) - self.tokens
        return np.arange(self.rows) - first[self.request] + self.starts[self.request]

    def most(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """[R]: the largest of values [T] among these rows of each request, at least 0."""
        found = np.zeros(len(self.tokens), int)
        np.maximum.at(found, self.request[rows], values[rows])
        return found
