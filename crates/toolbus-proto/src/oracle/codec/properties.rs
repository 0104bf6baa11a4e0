//! Laws of the codec, for generated types and values.

use proptest::prelude::*;

use super::*;
use crate::oracle::signature;

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_itself(sample in sample(), seed: u64) {
        let function = sample.function();
        let json = sample.value(&mut Dice(seed));
        let felts = encode_result(&function, &json).unwrap();
        prop_assert_eq!(decode_result(&function, &felts).unwrap(), json.clone());

        let args = format!("[{json}]");
        prop_assert_eq!(&encode_args(&function, &args).unwrap(), &felts);
        let args = decode_args(&function, ArgsForm::Signature, &felts).unwrap();
        prop_assert_eq!(encode_args(&function, &args).unwrap(), felts);
    }

    #[test]
    fn what_is_printed_parses_to_itself(sample in sample()) {
        let function = sample.function();
        prop_assert_eq!(&signature::parse(&function.canonical()).unwrap(), &[function]);
    }

    #[test]
    fn felts_that_decode_encode_to_themselves(sample in sample(), felts in felts()) {
        let function = sample.function();
        if let Ok(json) = decode_result(&function, &felts) {
            // Not always the same felts: the text of a `json` may have held white space.
            let again = encode_result(&function, &json).unwrap();
            prop_assert_eq!(decode_result(&function, &again).unwrap(), json);
        }
        let _ = decode_args(&function, ArgsForm::Plain, &felts);
    }

    #[test]
    fn no_json_breaks_the_encoder(sample in sample(), text in r#"[\[\]{},:"\\ 1nul.a-]{0,20}"#) {
        let function = sample.function();
        let _ = (encode_result(&function, &text), encode_args(&function, &text));
    }
}

/// Felts that look like something: small numbers, lengths, words.
fn felts() -> impl Strategy<Value = Vec<Felt>> {
    let felt = prop_oneof![
        4 => (0_u128..4).prop_map(Felt::from),
        2 => any::<u128>().prop_map(Felt::from),
        1 => any::<u128>().prop_map(|number| Felt::from(number).negated()),
        1 => any::<u8>().prop_map(|number| Felt::from(u128::from(number)).negated()),
    ];
    prop::collection::vec(felt, 0..20)
}

/// A type that values can be made of.
#[derive(Clone, Debug)]
enum Sample {
    Word(&'static str),
    Option(Box<Sample>),
    Result(Box<Sample>, Box<Sample>),
    Array(Box<Sample>),
    Fixed(Box<Sample>, usize),
    Tuple(Vec<Sample>),
    Struct(Vec<Sample>),
    Enum(Vec<Option<Sample>>),
}

fn sample() -> impl Strategy<Value = Sample> {
    let words = vec![
        "felt252",
        "bool",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "u256",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "ByteArray",
        "shortstring",
        "bytes31",
        "json",
    ];
    let leaf = prop::sample::select(words).prop_map(Sample::Word);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new).boxed();
        let list = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            boxed.clone().prop_map(Sample::Option),
            (boxed.clone(), boxed.clone()).prop_map(|(ok, err)| Sample::Result(ok, err)),
            boxed.clone().prop_map(Sample::Array),
            (boxed, 0_usize..4).prop_map(|(element, count)| Sample::Fixed(element, count)),
            list.clone().prop_map(Sample::Tuple),
            list.prop_map(Sample::Struct),
            prop::collection::vec(prop::option::of(inner), 1..4).prop_map(Sample::Enum),
        ]
    })
}

impl Sample {
    fn function(&self) -> Function {
        let mut defined = Vec::new();
        let ty = self.text(&mut defined);
        let text = format!("{} f(\"the value\": {ty}) -> {ty}", defined.concat());
        let mut functions = signature::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        functions.remove(0)
    }

    /// The text of the type. What has to be defined for it goes to `defined`.
    fn text(&self, defined: &mut Vec<String>) -> String {
        let (word, members) = match self {
            Sample::Word(word) => return (*word).to_owned(),
            Sample::Option(inner) => return format!("Option<{}>", inner.text(defined)),
            Sample::Result(ok, err) => {
                return format!("Result<{}, {}>", ok.text(defined), err.text(defined));
            }
            // Elements must take felts, whatever else they are.
            Sample::Array(inner) => return format!("Array<(u8, {})>", inner.text(defined)),
            Sample::Fixed(inner, count) => return format!("[{}; {count}]", inner.text(defined)),
            Sample::Tuple(members) => {
                let member = |member: &Sample| member.text(defined) + ", ";
                return format!("({})", members.iter().map(member).collect::<String>());
            }
            Sample::Struct(fields) => {
                let field = |(place, field): (usize, &Sample)| {
                    format!("\"f {place}\": {}, ", field.text(defined))
                };
                ("struct", fields.iter().enumerate().map(field).collect::<String>())
            }
            Sample::Enum(variants) => {
                let variant = |(place, variant): (usize, &Option<Sample>)| match variant {
                    Some(payload) => format!("V{place}: {}, ", payload.text(defined)),
                    None => format!("V{place}, "),
                };
                ("enum", variants.iter().enumerate().map(variant).collect::<String>())
            }
        };
        let name = format!("T{}", defined.len());
        defined.push(format!("{word} {name} {{ {members} }} "));
        name
    }

    /// A value as a result has it.
    fn value(&self, dice: &mut Dice) -> String {
        let list = |values: Vec<String>| format!("[{}]", values.join(","));
        match self {
            Sample::Word(word) => dice.word(word),
            Sample::Option(_) if dice.roll(3) == 0 => "null".to_owned(),
            Sample::Option(inner) => match &**inner {
                Sample::Option(_) | Sample::Word("json") => {
                    format!(r#"{{"Some":{}}}"#, inner.value(dice))
                }
                Sample::Tuple(members) if members.is_empty() => r#"{"Some":null}"#.to_owned(),
                _ => inner.value(dice),
            },
            Sample::Result(ok, _) if dice.roll(2) == 0 => format!(r#"{{"Ok":{}}}"#, ok.value(dice)),
            Sample::Result(_, err) => format!(r#"{{"Err":{}}}"#, err.value(dice)),
            Sample::Array(inner) => {
                let length = dice.roll(4);
                list((0..length).map(|_| format!("[7,{}]", inner.value(dice))).collect())
            }
            Sample::Fixed(inner, count) => list((0..*count).map(|_| inner.value(dice)).collect()),
            Sample::Tuple(members) if members.is_empty() => "null".to_owned(),
            Sample::Tuple(members) => {
                list(members.iter().map(|member| member.value(dice)).collect())
            }
            Sample::Struct(fields) => {
                let field = |(place, field): (usize, &Sample)| {
                    format!(r#""f {place}":{}"#, field.value(dice))
                };
                let fields: Vec<String> = fields.iter().enumerate().map(field).collect();
                format!("{{{}}}", fields.join(","))
            }
            Sample::Enum(variants) => {
                let place = dice.roll(variants.len() as u64) as usize;
                match &variants[place] {
                    Some(payload) => format!(r#"{{"V{place}":{}}}"#, payload.value(dice)),
                    None => format!(r#""V{place}""#),
                }
            }
        }
    }
}

/// Chance that comes from one seed, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // The multiplier is Knuth's; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }

    fn word(&mut self, word: &str) -> String {
        let texts =
            [r#""""#, r#""é\n""#, r#""abcdefghijklmnopqrstuvwxyz01234""#, r#"{"bytes":"00ff"}"#];
        let signed = |bits: u32| {
            let top = (1_u128 << (bits - 1)) - 1;
            [format!("-{}", top + 1), "-1".to_owned(), "0".to_owned(), top.to_string()]
        };
        let picked = match word {
            "bool" => self.pick(&["true", "false"]),
            "felt252" | "bytes31" => self.pick(&[r#""0x0""#, r#""0xabc""#]),
            "ByteArray" => self.pick(&texts),
            "shortstring" => self.pick(&[r#""""#, r#""abc""#, r#"{"bytes":"ff00"}"#]),
            "json" => self.pick(&["null", "-1.50e+3", r#"{"a":[1,{}],"a":"\u0041"}"#, r#"" ""#]),
            "u8" => self.pick(&["0", "255"]),
            "u16" => self.pick(&["0", "65535"]),
            "u32" | "usize" => self.pick(&["0", "4294967295"]),
            "u64" => self.pick(&["9007199254740991", r#""18446744073709551615""#]),
            "u128" | "u256" => self.pick(&["1", r#""340282366920938463463374607431768211455""#]),
            _ => {
                let bits = word[1..].parse().unwrap();
                let values = signed(bits).map(|text| match bits {
                    64.. if 2 < text.len() => format!("\"{text}\""),
                    _ => text,
                });
                return values[self.roll(4) as usize].clone();
            }
        };
        picked.to_owned()
    }
}
