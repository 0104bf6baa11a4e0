//! Numbers against what is known of numbers.

use proptest::prelude::*;
use toolbus_orchard::value::{Number, NumberError};

fn number(text: &str) -> Number {
    Number::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn text_and_back() {
    for (text, shown) in [
        ("0", "0"),
        ("-0.0", "0"),
        ("007.50", "7.5"),
        ("1e3", "1000"),
        ("125e-2", "1.25"),
        ("-12.50E+1", "-125"),
        ("0e99999999999999999999999", "0"),
        ("1e-10", "0.0000000001"),
        ("12345678901234567890123456789.5", "12345678901234567890123456790"),
        ("1234567890123456789012345678.4", "1234567890123456789012345678"),
        ("123456789012345678901234567.44", "123456789012345678901234567.4"),
        ("0.99999999999999999999999999999", "1"),
        ("170141183460469231731687303715884105727.4", "170141183460469231731687303715884105727"),
    ] {
        assert_eq!(number(text).to_string(), shown, "{text}");
    }
    for text in
        ["", "-", "+5", " 5", "5 ", "0x10", "1_000", ".5", "5.", "1e", "1e+", "NaN", "1.2.3", "--1"]
    {
        assert_eq!(Number::parse(text), Err(NumberError::NotDecimal), "{text}");
    }
    for text in
        ["1e39", "1e99999999999999999999", "170141183460469231731687303715884105728", "1e-99999"]
    {
        assert_eq!(Number::parse(text), Err(NumberError::TooLarge), "{text}");
    }
}

#[test]
fn the_edges_hold() {
    let most = Number::from(i128::MAX);
    let least = Number::from(i128::MIN);
    assert_eq!(most.plus(Number::ONE), Err(NumberError::TooLarge));
    assert_eq!(least.minus(Number::ONE), Err(NumberError::TooLarge));
    assert_eq!(least.negated(), Err(NumberError::TooLarge));
    assert_eq!(Number::ZERO.minus(least), Err(NumberError::TooLarge));
    assert_eq!(Number::from(-1).minus(least), Ok(most));
    assert_eq!(least.minus(least), Ok(Number::ZERO));
    assert_eq!(most.divided_by(most), Ok(Number::ONE));
    assert_eq!(least.divided_by(Number::from(-1)), Err(NumberError::TooLarge));
    assert_eq!(most.times(Number::from(2)), Err(NumberError::TooLarge));
    assert_eq!(most.plus(number("0.1")), Ok(most));
    assert_eq!(
        most.divided_by(Number::from(2)).unwrap().to_string(),
        "85070591730234615865843651857942052864"
    );
    assert_eq!(number("1e-900").plus(most), Ok(most));
    assert_eq!(number("1e38").modulo(number("0.0000000003")).unwrap().to_string(), "0.0000000001");
    assert_eq!(number("1e-500").modulo(number("7")), Ok(number("1e-500")));
    assert_eq!(number("5").modulo(number("3e-500")).map(|rest| rest < number("3e-500")), Ok(true));
    assert!(number("1e-1000") < number("1e-999"));
    assert!(number("-1e38") < number("-1e-999"));
    assert_eq!(number("1e-600").times(number("1e-600")), Err(NumberError::TooLarge));
    assert_eq!(Number::from_f64(f64::NAN), Err(NumberError::TooLarge));
    assert_eq!(Number::from_f64(0.1).unwrap().to_string(), "0.1");
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<i128>().prop_map(Number::from),
        (any::<i64>(), 0u32..30).prop_map(|(digits, scale)| number(&format!("{digits}e-{scale}"))),
        (any::<i128>(), 0u32..60).prop_map(|(digits, scale)| number(&format!("{digits}e-{scale}"))),
        (-1000i64..1000, 0u32..4).prop_map(|(digits, scale)| number(&format!("{digits}e-{scale}"))),
    ]
}

/// Near enough for floats.
fn is_near(found: Number, float: f64) -> bool {
    (found.to_f64() - float).abs() <= float.abs() * 1e-12 + f64::MIN_POSITIVE
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whole_numbers_are_exact(a in any::<i128>(), b in any::<i128>()) {
        let (one, two) = (Number::from(a), Number::from(b));
        prop_assert_eq!(one.plus(two).ok(), a.checked_add(b).map(Number::from));
        prop_assert_eq!(one.minus(two).ok(), a.checked_sub(b).map(Number::from));
        prop_assert_eq!(one.times(two).ok(), a.checked_mul(b).map(Number::from));
        prop_assert_eq!(one.modulo(two).ok(), a.checked_rem(b).map(Number::from));
        prop_assert_eq!(one.cmp(&two), a.cmp(&b));
        prop_assert_eq!(number(&one.to_string()), one);
    }

    #[test]
    fn small_fractions_are_exact(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000, x in 0u32..6, y in 0u32..6) {
        let (one, two) = (number(&format!("{a}e-{x}")), number(&format!("{b}e-{y}")));
        let (a, b) = (i128::from(a) * 10i128.pow(6 - x), i128::from(b) * 10i128.pow(6 - y));
        let micros = |micros: i128| number(&format!("{micros}e-6"));
        prop_assert_eq!(one.plus(two), Ok(micros(a + b)));
        prop_assert_eq!(one.minus(two), Ok(micros(a - b)));
        prop_assert_eq!(one.times(two), Ok(number(&format!("{}e-12", a * b))));
        prop_assert_eq!(one.cmp(&two), a.cmp(&b));
        if b != 0 {
            prop_assert_eq!(one.modulo(two), Ok(micros(a % b)));
            // Right to the last of 28 digits.
            let quotient = one.divided_by(two).unwrap();
            let back = quotient.times(two).unwrap().minus(one).unwrap();
            prop_assert!(back.to_f64().abs() <= one.to_f64().abs() * 1e-26, "{}", back);
        }
        for (found, wanted) in [(one.floor(), a.div_euclid(1_000_000)), (one.ceil(), -(-a).div_euclid(1_000_000))] {
            prop_assert_eq!(found, Ok(Number::from(wanted)));
        }
        let half_away = (a.abs() + 500_000) / 1_000_000 * a.signum();
        prop_assert_eq!(one.round(), Ok(Number::from(half_away)));
    }

    #[test]
    fn all_numbers_are_near_their_floats(one in any_number(), two in any_number()) {
        prop_assert_eq!(number(&one.to_string()), one);
        prop_assert_eq!(one == two, one.to_string() == two.to_string());
        let (a, b) = (one.to_f64(), two.to_f64());
        if let Ok(product) = one.times(two) {
            prop_assert!(is_near(product, a * b), "{} * {} = {}", one, two, product);
        }
        if let Ok(quotient) = one.divided_by(two) {
            prop_assert!(is_near(quotient, a / b), "{} / {} = {}", one, two, quotient);
        }
        if let Ok(sum) = one.plus(two) {
            // What cancels out loses digits of floats, not of ours.
            let slack = (a.abs() + b.abs()) * 1e-12;
            prop_assert!((sum.to_f64() - (a + b)).abs() <= slack, "{} + {} = {}", one, two, sum);
            prop_assert_eq!(two.plus(one), Ok(sum));
        }
        if let Ok(rest) = one.modulo(two) {
            prop_assert!(rest.signum() == 0 || rest.signum() == one.signum());
            prop_assert!(rest.to_f64().abs() <= b.abs());
        }
        if a != b {
            prop_assert_eq!(one < two, a < b);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+0-9.eE ]{0,40}") {
        if let Ok(read) = Number::parse(&text) {
            prop_assert_eq!(number(&read.to_string()), read);
        }
    }
}
