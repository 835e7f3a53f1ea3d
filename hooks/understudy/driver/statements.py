"""Which statements of SQL change something that others can see, as Spark's own parser understands them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from understudy.driver.java import java_class
from understudy.driver.scala import as_java
from understudy.driver.sinks import SESSION_CATALOG

#: How the plans of commands that only look are called, to begin with.
_LOOKS = ("Show", "Desc", "Explain", "List", "Refresh", "Cache", "Uncache", "Clear")
#: Commands that change this session alone.
_OF_THE_SESSION = frozenset(
    "SetCommand ResetCommand SetCatalogAndNamespace SetNamespaceCommand SetCatalogCommand AddJarsCommand AddFilesCommand"
    " AddArchivesCommand CreateViewCommand CreateTempViewUsing CreateVariable SetVariable DropVariable".split()
)
#: Commands that do one or the other, as their plans tell.
_MAY_BE_TEMPORARY = frozenset(("CreateFunctionCommand", "CreateSQLFunctionCommand", "DropFunctionCommand"))

#: Plans that change something, or may, and are no commands: what a procedure does is not known, nor a text made at run time.
_CHANGES = frozenset(
    "InsertIntoStatement UnresolvedInsert InsertIntoDir MergeIntoTable Call UnresolvedExecuteImmediate".split()
)

#: Classes of the two jars that the plans of Spark's own parser are in.
_IN_SPARKS_JARS = (
    "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan",
    "org.apache.spark.sql.execution.SparkPlan",
)

#: A whole statement whose name is an expression, ``IDENTIFIER(…)``: which statement it is, the parser does not tell.
_UNTOLD = "PlanWithUnresolvedIdentifier"

#: ``CREATE`` statements that do nothing when the object exists, and how Spark's plans call that flag.
_IF_NOT_EXISTS = {
    "CreateTable": "ignoreIfExists",
    "CreateTableAsSelect": "ignoreIfExists",
    "CreateNamespace": "ifNotExists",
    "CreateView": "allowExisting",
    "CreateFunction": "ifExists",
}

#: Commands on views, which may be temporary.
_OF_VIEWS = frozenset(("DropView", "AlterViewAs"))


class Effect(Enum):
    """What a statement does: ``NONE`` for a query, ``OWN`` for a command that looks or changes its session alone, ``CHANGES`` else."""

    NONE = "none"
    OWN = "own"
    CHANGES = "changes"


#: Values of a statement's markers, by name or in order.
Arguments = Mapping[str, Any] | Sequence[Any] | None


def effect_of(session: SparkSession, text: str, arguments: Arguments = None) -> Effect:
    """Whether a statement changes something others can see. What Spark cannot parse, it reports itself: ``NONE``.

    Temporary views and variables are the session's own, and ``CREATE … IF NOT EXISTS`` of what exists changes nothing. What an extension of
    the parser makes of a text, and is no command that looks, changes something.
    """
    try:
        plan = _parsed(session, text, arguments)
    except ParseException:
        return Effect.NONE
    except Exception:  # noqa: BLE001 - a marker's value that is no literal, say: Spark's own error comes at the grant, if there is one
        return Effect.CHANGES if arguments else Effect.NONE
    jvm: Any = session._jvm  # noqa: SLF001
    named = java_class(jvm, "java.lang.Class").forName
    command = named("org.apache.spark.sql.catalyst.plans.logical.Command", False, plan.getClass().getClassLoader())
    kind = _kind(plan)
    if kind == _UNTOLD or any(_changes(session, node, called, command) for node, called in _nodes(session, plan)):
        return Effect.CHANGES
    if command.isInstance(plan) or kind.startswith(_LOOKS):
        return Effect.OWN
    return Effect.NONE if _is_sparks(plan, named) else Effect.CHANGES


def _parsed(session: SparkSession, text: str, arguments: Arguments) -> Any:
    """The plan, its markers replaced by ``arguments`` as Spark replaces them: some places of a statement have no grammar for a marker."""
    jsession: Any = session._jsparkSession  # noqa: SLF001
    parser = jsession.sessionState().sqlParser()
    if not arguments:
        return parser.parsePlan(text)
    jvm: Any = session._jvm  # noqa: SLF001
    named = isinstance(arguments, Mapping)
    values = dict(arguments) if isinstance(arguments, Mapping) else {str(at): each for at, each in enumerate(arguments)}
    columns = {name: jsession.expression(lit(value)._jc) for name, value in values.items()}  # noqa: SLF001
    literals = jsession.resolveAndValidateParameters(jvm.PythonUtils.toScalaMap(columns))
    kind = java_class(jvm, f"org.apache.spark.sql.catalyst.parser.{'Named' if named else 'Positional'}ParameterContext")
    context = kind(literals if named else jvm.PythonUtils.toSeq([literals.apply(name) for name in values]))
    return parser.parsePlanWithParameters(text, context)


def _is_sparks(plan: Any, named: Any) -> bool:
    """Whether a plan's class is in a jar of Spark's: extensions put theirs into Spark's packages."""

    def jar(kind: Any) -> str:
        return str(kind.getProtectionDomain().getCodeSource().getLocation())

    loader = plan.getClass().getClassLoader()
    own = (jar(named(name, False, loader)) for name in _IN_SPARKS_JARS)
    return jar(plan.getClass()) in own


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _nodes(session: SparkSession, plan: Any) -> Iterator[tuple[Any, str]]:
    """The plan's nodes with what they are called: a query may hold several inserts. What only looks is not looked into."""
    kind = _kind(plan)
    yield plan, kind
    if not kind.startswith(_LOOKS):
        for child in as_java(session, plan.children()):
            yield from _nodes(session, child)


def _changes(session: SparkSession, plan: Any, kind: str, command: Any) -> bool:
    if kind in _CHANGES:
        return True
    if not command.isInstance(plan) or kind.startswith(_LOOKS) or kind in _OF_THE_SESSION:
        return False
    if kind in _MAY_BE_TEMPORARY:
        return not plan.isTemp()
    if kind in _OF_VIEWS:
        return not _is_temporary(session, _names(session, plan))
    return kind not in _IF_NOT_EXISTS or not _exists_already(session, plan, kind)


def _names(session: SparkSession, plan: Any) -> list[str]:
    """The parts of the name of what a command is about; empty where it is an expression."""
    target = as_java(session, plan.children())[0]
    match str(target.getClass().getSimpleName()):
        case "UnresolvedIdentifier":
            parts = target.nameParts()
        case "UnresolvedNamespace" | "UnresolvedView":
            parts = target.multipartIdentifier()
        case _:
            return []
    return [str(part) for part in as_java(session, parts)]


def _is_temporary(session: SparkSession, names: list[str]) -> bool:
    catalog = session._jsparkSession.sessionState().catalog()  # noqa: SLF001
    return len(names) == 1 and bool(catalog.getTempView(names[0]).isDefined())


def _exists_already(session: SparkSession, plan: Any, kind: str) -> bool:
    names = _names(session, plan)
    if not names or not getattr(plan, _IF_NOT_EXISTS[kind])():
        return False
    name = ".".join(f"`{part.replace('`', '``')}`" for part in names)
    match kind:
        case "CreateNamespace":
            return session.catalog.databaseExists(name) or _is_this_sessions_own(session, plan, names)
        case "CreateFunction":
            return session.catalog.functionExists(name)
        case _:
            return session.catalog.tableExists(name)


def _is_this_sessions_own(session: SparkSession, plan: Any, names: list[str]) -> bool:
    """Whether creating this database would change nothing but the session's own catalog in memory: its directory is there already."""
    state: Any = session._jsparkSession.sessionState()  # noqa: SLF001
    of_session = state.catalogManager().currentCatalog().name() == SESSION_CATALOG
    in_memory = session.conf.get("spark.sql.catalogImplementation") == "in-memory"
    if len(names) > 1 or not of_session or not in_memory:
        return False
    jvm: Any = session._jvm  # noqa: SLF001
    given = plan.properties().get("location")
    path = java_class(jvm, "org.apache.hadoop.fs.Path")
    home = path(session.conf.get("spark.sql.warehouse.dir"))
    directory = path(home, given.get()) if given.isDefined() else path(home, f"{names[0].lower()}.db")
    return bool(directory.getFileSystem(state.newHadoopConf()).exists(directory))
