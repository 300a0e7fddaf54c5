//! Elementary functions with the same bits on every machine.
//!
//! The standard library takes them from the platform, whose C library chooses them by the processor: with and without fused multiply-add, 92
//! of a million logarithms differ in their last bit, and with them, now and then, a nanosecond of a result. Clippy forbids the methods of
//! `f64` for that reason. Basic arithmetic and square roots are exact by IEEE 754 and need no function here.

/// Natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Natural logarithm of 1 + x.
#[inline]
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// e to the power of x.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// e to the power of x, less 1.
#[inline]
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// 2 to the power of x.
#[inline]
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// x to the power of y.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// x to the power of a whole number, by squaring.
#[inline]
pub fn powi(mut x: f64, mut n: u32) -> f64 {
    let mut power = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            power *= x;
        }
        x *= x;
        n >>= 1;
    }
    power
}

/// Cube root.
#[inline]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// Cosine of an angle in radians.
#[inline]
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_every_function_are_those_of_any_machine() {
        // The bits of the exact values rounded to the nearest (computed with 200 bits), and how far ours are above them in the last place.
        let x = 0.123_456_789_f64;
        let expected = [
            (ln(x), 13_835_264_914_779_626_866, 0),
            (ln_1p(x), 4_593_052_670_466_124_277, 0),
            (exp(x), 4_607_774_196_810_370_771, 0),
            (exp_m1(x), 4_593_902_244_373_362_329, 0),
            (exp2(x), 4_607_584_778_814_028_321, 0),
            (pow(x, -1.0 / 1.2), 4_618_121_345_662_024_759, 1),
            (powi(x, 17), 4_375_784_100_317_319_144, -4),
            (cbrt(x), 4_602_641_598_889_226_414, 0),
            (cos(x), 4_607_113_863_971_685_890, 0),
        ];
        for (value, exact, off) in expected {
            assert_eq!(value.to_bits(), u64::wrapping_add_signed(exact, off), "{value}");
        }
    }

    #[test]
    fn a_whole_power_is_the_product_of_its_factors() {
        assert_eq!(
            (powi(3.0, 0), powi(3.0, 1), powi(3.0, 5), powi(0.5, 10)),
            (1.0, 3.0, 243.0, 1.0 / 1024.0)
        );
    }
}
