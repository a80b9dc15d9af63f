"""An environment whose pictures each of the shipped judges, or a played user, is shown; it is served, too."""

from collections.abc import Iterable, Sequence
from typing import Literal

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Media,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    Text,
    picture,
    tool,
)
from rollouthub.authoring.rewards import CreditJudge, Criterion, Judge, PairwiseJudge, Tournament
from rollouthub.authoring.rewards.reward_model import RewardModel, Route
from rollouthub.authoring.users import ModelUser, UserSheet

TASK, TOOL = b"\x89PNG\r\n\x1a\ntask", b"\x89PNG\r\n\x1a\ntool"
SHEET = UserSheet(persona="Ada", goals=("Learn what the picture shows.",))
RIGHT = Criterion(name="right", question="Is it right?")


class JudgedConfig(EnvironmentConfig):
    """Who is asked, and what it is shown."""

    asks: Literal["judge", "credit", "reward_model", "user"] = "judge"
    sees_conversation: bool = False
    url: str = ""
    """Where the reward model is."""
    route: Route = "pooling"


class Judged(Environment[JudgedConfig]):
    """A picture to name, and another one that a tool shows."""

    submits = False
    reads_turns = True

    @classmethod
    def roles(cls, config: JudgedConfig) -> tuple[str, ...]:
        """The model that is asked."""
        return () if config.asks == "reward_model" else ("asked",)

    @classmethod
    def tasks(cls, config: JudgedConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """A picture between words."""
        shown = (Text(text="Look:"), picture(TASK), Text(text="Which shade?"))
        yield Task(Public(id="one", prompt=(Message(role="user", content=shown),)), Secret(answer="7"))

    async def setup(self) -> None:
        """The user sends what the task shows."""
        self.user = None
        if self.config.asks == "user":
            (opening,) = self.messages("agent")
            self.user = ModelUser(self.models["asked"], SHEET, opening)

    @tool
    async def look(self) -> Media:
        """Look again."""
        return picture(TOOL)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """What the user says."""
        return None if self.user is None else await self.user.reply(messages)

    async def verify(self, submission: Submission) -> Score:
        """Asked of the judge."""
        sees = self.config.sees_conversation
        match self.config.asks:
            case "judge":
                return await Judge(self.models["asked"], [RIGHT], sees_conversation=sees)(self.task, submission)
            case "credit":
                return await CreditJudge(self.models["asked"])(self.task, submission)
            case "reward_model":
                reward = RewardModel(self.config.url, self.config.route, model="tiny", sees_conversation=sees, tries=1)
                return await reward(self.task, submission)
            case "user":
                assert self.user is not None
                return Score(reward=float(self.user.is_done))


class Compared(Judged):
    """Two answers, of which a judge finds the better."""

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        """Each against each."""
        judge = PairwiseJudge(self.models["asked"])
        return await Tournament(judge, sees_conversation=self.config.sees_conversation).score(self.task, submissions)
