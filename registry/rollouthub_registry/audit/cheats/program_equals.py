"""A program whose functions return an object that is equal to everything."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped

_EQUAL = """\
class Equal(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __lt__
    def __bool__(self): return True
    def __hash__(self): return 0
    def __len__(self): return 1
    def __iter__(self): return iter([self])
    def __getitem__(self, key): return self
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __abs__(self): return 0
    def __round__(self, places=0): return self


"""


async def act(cheater: Cheater) -> None:
    """Answer with it."""
    program = await cheater.program()
    if not program.names:
        raise ProbeSkipped("the program has no functions")
    cheater.answer(program.with_functions(_EQUAL, "return Equal()"))


CHEAT = Cheat(
    name="program-equals",
    defect="L8",
    title="an object that is equal to everything is no right result",
    source="arXiv:2511.18397 (an object that is always equal)",
    act=act,
    needs="a program",
)
