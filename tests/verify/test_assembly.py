"""Assembly that only computes passes; anything that can distinguish launches does not."""

import pytest

from kernelwright.verify.trace.assembly import why_refused


@pytest.mark.parametrize(
    "text",
    [
        "max.f32 $0, $1, 0f00000000;",
        "tanh.approx.f32 $0, $1;",
        "ex2.approx.ftz.f32 $0, $1;",
        "{ .reg .b32 t; mul.f32 t, $1, $1; rsqrt.approx.f32 $0, t; }",
        "{\n    // two halves\n    .reg .b16 %lo, %hi;\n    mov.b32 {%lo, %hi}, $1;\n    cvt.f32.f16 $0, %lo;\n}",
        "{ .reg .pred p; setp.lt.f32 p, $1, $2; @p mov.f32 $0, $1; @!p mov.f32 $0, $2; }",
        "{ .reg .b32 a<4>; prmt.b32 a0, $1, $1, 0x5140; and.b32 a1, a0, 0x0f0f0f0f; mov.b32 $0, a1; }",
        "{ .reg .f32 %f<2>; add.f32 %f0, $1, $2; mov.f32 $0, %f0; }",
        "cvt.rn.bf16x2.f32 $0, $2, $1;",
        "ld.global.nc.b32 $0, [$1];",
        "st.global.cs.b32 [$0], $1;",
        "v_exp_f32 $0, $1",
        "shfl.sync.bfly.b32 $0, $1, 16, 0x1f, 0xffffffff;",
        "lop3.b32 $0, $1, $2, $3, 0xea; /* and, or */",
    ],
)
def test_calculations_pass(text: str) -> None:
    assert why_refused(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "mov.u64 $0, %globaltimer;",
        "mov.u32 $0, %clock;",
        "{ .reg .b64 t; mov.u64 t, %clock64; mov.b64 $0, t; }",
        "mov.u64 $0, %gridid;",
        "mov.u32 $0, %smid;",
        "mov.u32 $0, /* a comment */ %nsmid;",
        "{ .reg .b32 %smid1; mov.u32 $0, %smid; }",
        "{ .reg .b64 %clock<2>; mov.u64 $0, %clock64; }",
        "ld.shared.b32 $0, [$1];",
        "ld.b32 $0, [$1];",
        "ld.local.b32 $0, [$1];",
        "ld.volatile.shared.b32 $0, [$1];",
        "st.shared.b32 [$0], $1;",
        "atom.shared.add.u32 $0, [$1], 1;",
        "nanosleep.u32 1000;",
        "exit;",
        "ret;",
        "trap;",
        "bra DONE;",
        "DONE: mov.u32 $0, 1;",
        ".shared .b32 kept; mov.u32 $0, 1;",
        "mov.u32 $0, 1; } .global .b32 kept; .func f() {",
        "} {",
        "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;",
        "prefetch.global.L2 [$1];",
        "s_memtime $0",
        "s_getreg_b32 $0, 4",
        "MOV.u32 $0, 1;",
        "griddepcontrol.wait;",
        "call f;",
        ".loc 1 1 1; mov.u32 $0, 1;",
    ],
)
def test_what_tells_one_launch_from_another_does_not(text: str) -> None:
    assert why_refused(text) != ""
