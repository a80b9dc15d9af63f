"""What is signed about a run: an in-toto statement (v1) whose subject is the root over all of the run's rollouts."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field, JsonValue

from rollouthub.rollout import Outcome
from rollouthub.values import Frozen
from rollouthub_registry.bundle.attestation import STATEMENT_TYPE, Digest, StatementSubject, SubjectDigest

PREDICATE_TYPE: Literal["urn:rollouthub:receipt:v1"] = "urn:rollouthub:receipt:v1"
MOST_INDEXED = 50_000
"""Most attempts whose leaves are listed one by one; of a larger run the receipt holds the root alone."""

Name = Annotated[str, Field(max_length=1000)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class PlayedEnvironment(Frozen):
    """An environment that the run's rollouts name."""

    name: Name
    version: Name
    code: Name
    """Digest of the environment's code, as its host reported it."""
    bundle: Name | None
    """Digest of the bundle that it was installed from; None if it ships with the hub, or ran from a folder."""
    dependencies: Name | None
    """Digest of its pinned dependencies; None if it has none of its own."""
    splits: tuple[Name, ...] = Field(max_length=1000)
    attempts: _Count


class PlayedAgent(Frozen):
    """An agent that played at least one seat."""

    name: Name
    version: Name
    config: Digest
    """Digest of its configuration; the configuration itself is in the records."""


class PlayedModel(Frozen):
    """A model that the records name as having answered."""

    name: Name
    role: Literal["player", "environment"]
    """`player` for the models of agents, `environment` for those that an environment asked, such as a judge."""
    answers: _Count
    """Number of its recorded answers, over all attempts."""
    with_token_ids: _Count
    """How many of them have the ids of their tokens."""
    with_logprobs: _Count


class PlayedImage(Frozen):
    """A container image that programs of the run ran in."""

    name: Name | None
    digest: Name | None
    """The image's digest as its engine reported it; None where it is not known."""


class RunCounts(Frozen):
    """How many rollouts were planned, and what became of them."""

    planned: _Count | None
    """Number of planned rollouts; None where nobody planned a number, as in a stream for a trainer."""
    recorded: _Count
    """Number of samples with a record, failures included."""
    attempts: _Count
    """Number of records: all attempts at all samples."""
    waiting: _Count
    """Number of rollouts that wait for their group's verdict."""
    bad_rows: _Count
    """Number of data rows that made no task."""
    outcomes: dict[Outcome, _Count]
    """Outcome → number of samples; `scored` and every kind of failure."""
    suspect: _Count
    passed: _Count
    mean_reward: _Finite | None
    """Mean reward over scored samples; None without any."""

    @property
    def missing(self) -> int:
        """Number of planned rollouts without a record."""
        return 0 if self.planned is None else max(0, self.planned - self.recorded)


class RolloutTree(Frozen):
    """The Merkle tree over the canonical form of every attempt."""

    form: Name
    """Name of the canonical form, see `canonical.FORM`."""
    leaves: _Count
    root: Digest
    index: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]] | None = Field(
        default=None, max_length=MOST_INDEXED
    )
    """`ROLLOUT#ATTEMPT` → the first 16 hexadecimal digits of its leaf, to say which one differs; None of a run with
    more than 50,000 attempts. What proves is the root.
    """


class RunFacts(Frozen):
    """Everything of a receipt that is computed from the run's directory, and computed again to verify it."""

    run_id: Annotated[str, Field(min_length=1, max_length=200)]
    status: Name
    stopped: Name | None
    """Why the run ended before all was played; None otherwise."""
    created_at: _Finite
    """Unix time in seconds, by the clock of the machine that played."""
    finished_at: _Finite | None
    resumptions: _Count
    machines: Digest
    """Digest of the name of the machine that began the run, and of all resumptions; the names stay in the run."""
    hub_version: Name
    """Version of the hub that began the run."""
    run_schema: _Count
    """Schema version of the run's database."""
    settings: Digest
    """Digest of the resolved settings, in canonical form."""
    sampling: dict[str, JsonValue]
    """The sampling settings that were asked for."""
    seed: int | None
    """The seed that was asked for; None if none was, which is seed 0 for tasks and none for the model."""
    environments: tuple[PlayedEnvironment, ...] = Field(max_length=1000)
    agents: tuple[PlayedAgent, ...] = Field(max_length=1000)
    models: tuple[PlayedModel, ...] = Field(max_length=1000)
    images: tuple[PlayedImage, ...] = Field(max_length=1000)
    tools: dict[Name, Digest] = Field(max_length=1000)
    """Digest of a tool list, as the records name it → digest of its definitions in canonical form."""
    files: dict[Name, Digest] = Field(max_length=10)
    """File beside the records (`hub.lock`, `run.toml`, `resolved.json`) → digest of its bytes."""
    counts: RunCounts
    tree: RolloutTree


class ModelFiles(Frozen):
    """The files of a model that the signer says played; nothing in the run's records shows that it did."""

    model: Name
    weights: Digest
    """Digest over the names and digests of the folder's weights and configuration."""
    tokenizer: Digest | None
    """Digest of `tokenizer.json`; None where the folder has none."""
    files: _Count


class Receipt(Frozen):
    """The predicate: what the signer states about the run."""

    run: RunFacts
    model_files: ModelFiles | None = None
    """What the signer named with `hub attest --weights`."""
    signed_at: AwareDatetime = Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(9000, 1, 1, tzinfo=UTC))
    """When it was signed, by the signer's clock."""
    hub_version: Name
    """Version of the hub that made the receipt."""


class ReceiptStatement(Frozen):
    """The signed content of a receipt."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(validation_alias="_type", serialization_alias="_type")
    subject: tuple[StatementSubject, ...] = Field(min_length=1, max_length=1)
    """The run: its id, and the root over its rollouts as SHA-256."""
    predicate_type: Literal["urn:rollouthub:receipt:v1"] = Field(
        validation_alias="predicateType", serialization_alias="predicateType"
    )
    predicate: Receipt

    @classmethod
    def of(cls, receipt: Receipt) -> "ReceiptStatement":
        """The statement of a receipt."""
        root = receipt.run.tree.root.removeprefix("sha256:")
        subject = StatementSubject(name=receipt.run.run_id, digest=SubjectDigest(sha256=root))
        return cls.model_validate(
            {"_type": STATEMENT_TYPE, "subject": (subject,), "predicateType": PREDICATE_TYPE, "predicate": receipt}
        )

    @property
    def speaks_of_its_run(self) -> bool:
        """Whether the subject is the run that the predicate describes."""
        run, subject = self.predicate.run, self.subject[0]
        return subject.name == run.run_id and f"sha256:{subject.digest.sha256}" == run.tree.root
