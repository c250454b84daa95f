"""What generated text is made of besides its functions: its head, and small functions in C, of which it gets those it uses.

They compute what C leaves undefined or does not have: quotients that round down, shifts by any amount, conversions of
floats outside the range of an integer, floats of at most 16 bits (as integer code, rounded once, to nearest even).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tirlower.call.errors import MAX_ERROR_VALUES
from tirlower.emit.types import FLOAT_FORMATS, FloatFormat

__all__ = ["HEAD", "HELPERS", "Helper", "runtime_text"]

HEAD: Final = f"""\
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "each operation on floats is to be rounded to its type: compile for SSE2, or for another processor"
#endif
#if defined(__clang__) || defined(_MSC_VER)
#pragma STDC FP_CONTRACT OFF
#endif

typedef struct {{
    int32_t code;
    int32_t nvals;
    int64_t vals[{MAX_ERROR_VALUES}];
}} tir_error;
"""


@dataclass(frozen=True)
class Helper:
    """A function of the runtime, and those that it calls."""

    text: str

    @property
    def needs(self) -> list[str]:
        """The names of the functions in its text."""
        return [name for name in dict.fromkeys(re.findall(r"\btir_\w+", self.text)) if name in HELPERS]


def _division(bits: int) -> str:
    t, u = f"int{bits}_t", f"uint{bits}_t"
    return f"""\
static inline {t} tir_truncdiv_i{bits}({t} a, {t} b) {{
    return b == -1 ? ({t})(0u - ({u})a) : a / b;
}}

static inline {t} tir_truncmod_i{bits}({t} a, {t} b) {{
    return b == -1 ? 0 : a % b;
}}

static inline {t} tir_floordiv_i{bits}({t} a, {t} b) {{
    if (b == -1) {{
        return ({t})(0u - ({u})a);
    }}
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}}

static inline {t} tir_floormod_i{bits}({t} a, {t} b) {{
    if (b == -1) {{
        return 0;
    }}
    {t} rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}}
"""


def _float_division(end: str) -> str:
    """``//`` and ``%`` of floats as Python has them: with the divisor's sign, of the remainder that C computes exactly."""
    t = "float" if end else "double"
    return f"""\
static inline {t} tir_floormod{end}({t} a, {t} b) {{
    {t} rest = fmod{end}(a, b);
    if (rest == 0) {{
        return copysign{end}(0, b);
    }}
    return (rest < 0) != (b < 0) ? rest + b : rest;
}}

static inline {t} tir_floordiv{end}({t} a, {t} b) {{
    {t} rest = fmod{end}(a, b);
    {t} whole = (a - rest) / b;
    if (b == 0) {{
        return a / b;
    }}
    whole = rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
    if (whole == 0) {{
        return copysign{end}(0, a / b);
    }}
    return whole - floor{end}(whole) > ({t})0.5 ? floor{end}(whole) + 1 : floor{end}(whole);
}}
"""


_INTEGERS = (
    """\
/* The lower bits of x as a signed number. */
static inline int64_t tir_sx(uint64_t x, int bits) {
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return (int64_t)((x & (sign - 1 + sign)) ^ sign) - (int64_t)(sign - 1) - 1;
}
""",
    """\
static inline uint64_t tir_shl(uint64_t x, uint64_t by, unsigned bits) {
    return by < bits ? x << by : 0;
}
""",
    """\
static inline uint64_t tir_shr(uint64_t x, uint64_t by, unsigned bits) {
    return by < bits ? x >> by : 0;
}
""",
    """\
static inline int64_t tir_sar(int64_t x, uint64_t by, unsigned bits) {
    unsigned n = by < bits ? (unsigned)by : bits - 1;
    return x < 0 ? ~(~x >> n) : x >> n;
}
""",
    """\
static inline int tir_popcount(uint64_t x) {
    int count = 0;
    for (; x != 0; x &= x - 1) {
        ++count;
    }
    return count;
}
""",
    """\
static inline int tir_clz(uint64_t x, int bits) {
    for (; x != 0; x >>= 1) {
        --bits;
    }
    return bits;
}
""",
    """\
static inline uint64_t tir_power(uint64_t x, uint64_t y) {
    uint64_t result = 1;
    for (; y != 0; y >>= 1) {
        result = y & 1 ? result * x : result;
        x *= x;
    }
    return result;
}
""",
    """\
/* (x * y * 2^left + half) >> right in 128 bits; the lower 64. */
static inline uint64_t tir_fixed_point(int64_t x, int64_t y, uint64_t left, uint64_t right) {
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    uint64_t low = a * b;
    uint64_t p = (a >> 32) * (b & 0xFFFFFFFFu) + ((a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu) >> 32);
    uint64_t q = (a & 0xFFFFFFFFu) * (b >> 32) + (p & 0xFFFFFFFFu);
    uint64_t high = (a >> 32) * (b >> 32) + (p >> 32) + (q >> 32);
    high -= (x < 0 ? b : 0) + (y < 0 ? a : 0);
    for (left = left < 128 ? left : 128; left != 0; --left) {
        high = high << 1 | low >> 63;
        low <<= 1;
    }
    if (right != 0 && right < 128) {
        uint64_t half_low = right <= 64 ? UINT64_C(1) << (right - 1) : 0;
        uint64_t half_high = right > 64 ? UINT64_C(1) << (right - 65) : 0;
        low += half_low;
        high += half_high + (low < half_low);
    }
    for (right = right < 128 ? right : 128; right != 0; --right) {
        low = low >> 1 | high << 63;
        high = high >> 1 | (high & UINT64_C(1) << 63);
    }
    return low;
}
""",
    """\
/* Whether a * b leaves 64 bits; the product in *out where it does not. */
static inline bool tir_mul_leaves(int64_t a, int64_t b, int64_t *out) {
    bool negative = (a < 0) != (b < 0);
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    uint64_t most = (uint64_t)INT64_MAX + negative;
    *out = 0;
    if (x != 0 && y > most / x) {
        return true;
    }
    *out = (int64_t)(negative ? 0 - x * y : x * y);
    return false;
}
""",
    """\
/* Whether a + b leaves 64 bits; the sum in *out where it does not. */
static inline bool tir_add_leaves(int64_t a, int64_t b, int64_t *out) {
    *out = 0;
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {
        return true;
    }
    *out = a + b;
    return false;
}
""",
)

_FLOATS = (
    """\
static inline uint64_t tir_bits_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}
""",
    """\
static inline double tir_of_bits_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
""",
    """\
static inline uint32_t tir_bits_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
""",
    """\
static inline float tir_of_bits_f32(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
""",
    """\
/* Toward zero, to the nearest end outside the range, and 0 of a NaN. */
static inline int64_t tir_to_int(double x, int64_t low, int64_t high) {
    if (x != x) {
        return 0;
    }
    return x <= (double)low ? low : x >= (double)high ? high : (int64_t)x;
}
""",
    """\
static inline uint64_t tir_to_uint(double x, uint64_t high) {
    if (!(x > 0.0)) {
        return 0;
    }
    return x >= (double)high ? high : (uint64_t)x;
}
""",
    """\
/* The smaller number; of a NaN and a number, the number. */
static inline double tir_fmin(double a, double b) {
    return a != a ? b : b != b ? a : a < b ? a : b;
}
""",
    """\
static inline double tir_fmax(double a, double b) {
    return a != a ? b : b != b ? a : a > b ? a : b;
}
""",
    """\
static inline double tir_sigmoid(double x) {
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}
""",
    """\
/* An integer as a double whose last bit says whether something was cut off: to be rounded once more. */
static inline double tir_odd_u64(uint64_t x) {
    return (double)(x >> 53 != 0 ? (x & ~UINT64_C(2047)) | ((x & 2047) != 0 ? 2048 : 0) : x);
}
""",
    """\
static inline double tir_odd_i64(int64_t x) {
    return x < 0 ? -tir_odd_u64(0 - (uint64_t)x) : tir_odd_u64((uint64_t)x);
}
""",
    """\
/* a * b + c of numbers of few bits, whose product is exact; the last bit says whether the sum was. */
static inline double tir_odd_fma(double a, double b, double c) {
    double product = a * b, total = product + c, back = total - product;
    double lost = (product - (total - back)) + (c - back);
    uint64_t bits = tir_bits_f64(total);
    if ((bits & 1) != 0 || !(lost < 0.0 || lost > 0.0)) {
        return total;
    }
    return tir_of_bits_f64((total < 0.0) == (lost < 0.0) ? bits + 1 : bits - 1);
}
""",
    """\
typedef struct {
    int exponent, mantissa, bias;
    uint32_t nan, beyond, largest;
    bool infinity, unsigned_zero, has_nan;
} tir_format;
""",
    """\
static uint32_t tir_encode(double x, const tir_format *form) {
    uint64_t bits = tir_bits_f64(x), magnitude = bits & INT64_MAX;
    uint32_t sign = (uint32_t)(bits >> 63) << (form->exponent + form->mantissa), code;
    int exponent = (int)(magnitude >> 52) - 1023 + form->bias, shift = 52 - form->mantissa;
    if (x != x) {
        code = form->nan;
        sign = form->has_nan ? sign : 0;
    } else if (magnitude >> 52 == 2047) {
        code = form->beyond;
    } else if (magnitude >> 52 == 0) {
        code = 0; /* a double that is zero or subnormal */
    } else {
        uint64_t digits = (magnitude & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
        if (exponent < 1) {
            shift += 1 - exponent;
            exponent = 1;
        }
        if (shift > 54) {
            shift = 54;
            digits = 1;
        }
        uint64_t half = UINT64_C(1) << (shift - 1), odd = digits >> shift & 1;
        digits = (digits + half - 1 + odd) >> shift;
        digits += (uint64_t)(exponent - 1) << form->mantissa;
        code = digits > form->largest ? form->beyond : (uint32_t)digits;
    }
    if (form->unsigned_zero && (code == 0 || code == form->nan)) {
        sign = 0;
    }
    return code | sign;
}
""",
    """\
static float tir_decode(uint32_t code, const tir_format *form) {
    uint32_t top = UINT32_C(1) << (form->exponent + form->mantissa);
    uint32_t magnitude = code & (top - 1), digits = magnitude & ((UINT32_C(1) << form->mantissa) - 1);
    int exponent = (int)(magnitude >> form->mantissa);
    double x;
    bool nan = form->unsigned_zero ? code == form->nan : form->infinity ? magnitude > form->beyond : magnitude == form->nan;
    if (nan && form->has_nan) {
        return form->unsigned_zero || (code & top) == 0 ? NAN : -NAN;
    }
    if (form->infinity && magnitude == form->beyond) {
        x = INFINITY;
    } else if (exponent == 0) {
        x = ldexp((double)digits, 1 - form->bias - form->mantissa);
    } else {
        x = ldexp((double)(digits | UINT32_C(1) << form->mantissa), exponent - form->bias - form->mantissa);
    }
    return (float)(code & top ? -x : x);
}
""",
    """\
static inline float tir_next(float x, float y, const tir_format *form) {
    uint32_t code = tir_encode(x, form);
    if (x != x || y != y) {
        return NAN;
    }
    if (x == y) {
        return y;
    }
    if (x == 0.0f) {
        return copysignf(tir_decode(1, form), y);
    }
    return tir_decode((y > x) == (x > 0.0f) ? code + 1 : code - 1, form);
}
""",
)

_E8M0 = """\
/* An exponent alone: halves up; a NaN for what is not a positive number. */
static uint8_t tir_float8_e8m0fnu_bits(double x) {
    uint64_t bits = tir_bits_f64(x);
    if (!(x > 0.0) || bits >> 52 == 2047) {
        return 255;
    }
    int exponent = (int)(bits >> 52) - 1023 + (int)(bits >> 51 & 1);
    if (bits >> 52 < 1023 - 126) {
        return x > 0x1p-127 ? 1 : 0;
    }
    return exponent > 127 ? 255 : (uint8_t)(exponent + 127);
}

static float tir_float8_e8m0fnu_of(uint8_t code) {
    return code == 255 ? NAN : (float)ldexp(1.0, code - 127);
}

static inline float tir_float8_e8m0fnu(double x) {
    return tir_float8_e8m0fnu_of(tir_float8_e8m0fnu_bits(x));
}
"""


def _format(name: str, form: FloatFormat) -> str:
    t = f"uint{16 if form.exponent + form.mantissa > 7 else 8}_t"
    no_number = form.largest if form.nan is None else form.nan
    beyond = no_number if form.infinity is None else form.infinity
    yes = ("false", "true")
    fields = (
        f"{form.exponent}, {form.mantissa}, {form.bias}, {no_number:#x}, {beyond:#x}, {form.largest:#x}, "
        f"{yes[form.infinity is not None]}, {yes[form.unsigned_zero]}, {yes[form.nan is not None]}"
    )
    return f"""\
static const tir_format tir_{name}_format = {{{fields}}};

static inline {t} tir_{name}_bits(double x) {{
    return ({t})tir_encode(x, &tir_{name}_format);
}}

static inline float tir_{name}_of({t} code) {{
    return tir_decode(code, &tir_{name}_format);
}}

static inline float tir_{name}(double x) {{
    return tir_{name}_of(tir_{name}_bits(x));
}}
"""


def _memory(ctype: str) -> str:
    """Access to memory that is also accessed as something else: as C allows it."""
    end = ctype.replace("_t", "").replace("void *", "pointer")
    return f"""\
static inline {ctype} tir_get_{end}(const void *base, int64_t at) {{
    {ctype} x;
    memcpy(&x, (const unsigned char *)base + at * (int64_t)sizeof x, sizeof x);
    return x;
}}

static inline void tir_put_{end}(void *base, int64_t at, {ctype} x) {{
    memcpy((unsigned char *)base + at * (int64_t)sizeof x, &x, sizeof x);
}}
"""


def _table() -> dict[str, Helper]:
    """Each function's name, in an order in which every one stands behind those that it calls."""
    texts = [_division(32), _division(64), _float_division("f"), _float_division(""), *_INTEGERS, *_FLOATS]
    formats = {"float16": FloatFormat(5, 10, 15, 0x7C00, 0x7E00, 0x7BFF), **FLOAT_FORMATS}
    texts += [_format(name, form) for name, form in formats.items()]
    texts.append(_E8M0)
    kinds = [f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)]
    texts += [_memory(ctype) for ctype in (*kinds, "float", "double", "void *")]
    found: dict[str, Helper] = {}
    for text in texts:
        helper = Helper(text)
        for line in text.splitlines():
            named = re.match(r"static .*?\b(tir_\w+)(?=\(| = )|\} (tir_\w+);", line)
            if named:
                found[named[1] or named[2]] = helper
    return found


HELPERS: Final[dict[str, Helper]] = _table()
"""The functions by name; several may be one text."""


def runtime_text(names: Iterable[str]) -> str:
    """The text of some functions, in order."""
    used = set(names)
    texts = dict.fromkeys(helper.text for name, helper in HELPERS.items() if name in used)
    return "\n".join(texts)
