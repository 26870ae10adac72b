"""How kernels that are called by kernels are compiled: as parts, not on their own.

numba makes machine code, a Python wrapper and an optimised module of every function it meets,
and does so again for each caller. A part stops after lowering: its code goes unoptimised into
whoever is called from Python, which is optimised once, as a whole (ADR 0004). A cold start
takes a third of the time.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

from llvmlite.binding import Linkage, parse_assembly
from numba.core import compiler, compiler_machinery, typed_passes, types
from numba.core.codegen import JITCodeLibrary


class KernelFlags(compiler.Flags):
    """numba's flags by what was set: numba's own comparison is a sixth of a compile."""

    __slots__ = ()

    def __hash__(self) -> int:
        """One for all, as numba's is in effect."""
        return 1

    def __eq__(self, other: object) -> bool:
        """Same options set to same values."""
        if isinstance(other, KernelFlags):
            return bool(self._values == other._values)
        return NotImplemented


_OPERATORS = frozenset(
    f for name, f in vars(operator).items() if callable(f) and name.islower()
) | {max, min, abs, len, range}
UNUSED = frozenset(
    {
        "WithLift",
        "InlineClosureLikes",
        "RewriteDynamicRaises",
        "MakeFunctionToJitFunction",
        "InlineInlinables",
        "FindLiterallyCalls",
        "LiteralUnroll",
        "LiteralPropagationSubPipelinePass",
        "AnnotateTypes",
        "InlineOverloads",
        "NopythonRewrites",
    }
)
"""Passes for what no kernel has: with, closures, dynamic raises, array expressions."""
_known: dict[tuple[Any, Any], Any] = {}
listeners: list[Callable[[str], None]] = []
"""Told the name of every kernel that is compiled, and not loaded, before it is."""


def _look_up(context: Any, func: Any, args: Any, kws: Any) -> Any:
    """Signature of a call; numba tries dozens of candidates for each plus sign."""
    is_operator = isinstance(func, types.Function) and func.typing_key in _OPERATORS
    if kws or not is_operator:
        return type(context).resolve_function_type(context, func, args, kws)
    key = (func, args)
    found = _known.get(key)
    if found is None:
        found = type(context).resolve_function_type(context, func, args, kws)
        if found is not None:
            _known[key] = found
    return found


class PartLibrary(JITCodeLibrary):
    """Code of one part and of what it calls: linked, never run by itself."""

    def finalize(self) -> None:
        """Link what it calls; nothing is optimised and no machine code is made."""
        self._raise_if_finalized()
        seen = set()
        for library in self._linking_libraries:
            if library not in seen:
                seen.add(library)
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(typed_passes.NativeLowering):
    """Lowering that ends with a module instead of machine code."""

    _name = "fanfold_part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower into a PartLibrary and make it known to callers."""
        codegen = state.targetctx.codegen()
        state.library = PartLibrary(codegen, state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        entry: Any = [].append  # never called: numba tells functions apart by it
        lowered = state["cr"]
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class WholeLibrary(JITCodeLibrary):
    """Code of one kernel that Python calls, and of all parts in it."""

    def _optimize_final_module(self) -> None:
        """Make the parts private first: unused arguments go, single callers take them in."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
        # numba runs a cheap round first, for reference counts; kernels have none.
        passes, builder = self._codegen._module_pass_manager()
        with self._recorded_timings.record("Module passes", builder):
            passes.run(self._final_module, builder)

    def serialize_using_object_code(self) -> Any:
        """Machine code, and names alone where numba keeps bitcode for callers: there are none.

        Reading that bitcode back took as long as all else of a load.
        """
        self._ensure_finalized()
        functions = self._get_module_for_linking().functions
        names = [function.name for function in functions if not function.is_declaration]
        text = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
        return (
            self.name,
            "object",
            (self._get_compiled_object(), parse_assembly(text).as_bitcode()),
        )


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class WholeLowering(typed_passes.NativeLowering):
    """Lowering into a WholeLibrary."""

    _name = "fanfold_whole_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, optimise, make machine code."""
        codegen = state.targetctx.codegen()
        state.library = WholeLibrary(codegen, state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


def make_quick(dispatcher: Any) -> None:
    """Let a dispatcher compile with KernelFlags."""
    dispatcher._compiler._customize_flags = KernelFlags


class PartCompiler(compiler.CompilerBase):
    """numba's pipeline with PartLowering in the place of its lowering."""

    lowering: type[Any] = PartLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile; operators are looked up once for each set of types meanwhile."""
        context = self.state.typingctx
        if "resolve_function_type" in vars(context):
            return super().compile_extra(func)
        context.resolve_function_type = functools.partial(_look_up, context)
        try:
            return super().compile_extra(func)
        finally:
            del context.resolve_function_type

    def define_pipelines(self) -> list[Any]:
        """The one pipeline."""
        manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lowering if step is typed_passes.NativeLowering else step, why)
            for step, why in manager.passes
            if step.__name__ not in UNUSED
        ]
        manager.finalize()
        return [manager]


class WholeCompiler(PartCompiler):
    """The same with WholeLowering; who listens is told first."""

    lowering = WholeLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile what no cache had."""
        for listener in listeners:
            listener(func.__name__)
        return super().compile_extra(func)
