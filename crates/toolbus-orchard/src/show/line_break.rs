//! Where lines may be broken: the rules of Unicode (UAX #14) for European and East Asian text.
//!
//! Letters are told apart as far as our messages hold them: ASCII and the punctuation that people
//! type. Of others the width says enough; scripts that need a dictionary are not broken.

use unicode_width::UnicodeWidthChar;

/// How a character stands towards its neighbours; the names are those of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Letters, and all that has no other class.
    Alphabetic,
    Numeric,
    /// Han, kana, Hangul and pictures: lines may be broken before and behind each.
    Ideographic,
    /// Half of a flag.
    Flag,
    Space,
    /// Tabs, hyphens and bars: a line may be broken behind them.
    BreakAfter,
    BreakBefore,
    Dash,
    Hyphen,
    OpenPunctuation,
    ClosePunctuation,
    CloseParenthesis,
    Exclamation,
    /// Commas, full stops and colons.
    Infix,
    Slash,
    NonStarter,
    /// Three dots.
    Inseparable,
    /// Units and percent signs.
    Postfix,
    /// Currencies and signs.
    Prefix,
    Quote,
    QuoteOpen,
    QuoteClose,
    /// A space that holds its neighbours together.
    Glue,
    WordJoiner,
    ZeroWidthSpace,
    /// An end of line.
    Mandatory,
    /// Accents: part of the character before them.
    Mark,
    Joiner,
}

use Class::{
    Alphabetic, BreakAfter, BreakBefore, CloseParenthesis, ClosePunctuation, Dash, Exclamation,
    Flag, Glue, Hyphen, Ideographic, Infix, Inseparable, Joiner, Mandatory, Mark, NonStarter,
    Numeric, OpenPunctuation, Postfix, Prefix, Quote, QuoteClose, QuoteOpen, Slash, Space,
    WordJoiner, ZeroWidthSpace,
};

/// A character with the marks behind it.
#[derive(Debug, Clone, Copy)]
struct Unit {
    at: usize,
    class: Class,
    is_wide: bool,
    /// A joiner is its last mark.
    is_joined: bool,
    /// The last unit up to here that is no space; the first one of the line if all are.
    base: usize,
    /// How many halves of flags end here.
    flags: usize,
}

/// The places within a line where it may be broken, but for those that would leave a hyphen
/// behind: there only letters decide.
pub(super) fn breaks(line: &str) -> Vec<usize> {
    let units = units(line);
    let is_behind_hyphen = |at: usize| line[..at].ends_with(['-', '\u{ad}']);
    let may_break = |at: &usize| is_break(&units, *at);
    let places = (1..units.len()).filter(may_break).map(|at| units[at].at);
    places.filter(|at| !is_behind_hyphen(*at)).collect()
}

fn units(line: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (at, char) in line.char_indices() {
        let class = class(char);
        let count = units.len();
        let is_mark = matches!(class, Mark | Joiner);
        match units.last_mut() {
            Some(last) if is_mark && !matches!(last.class, Space | Mandatory | ZeroWidthSpace) => {
                last.is_joined = class == Joiner;
            }
            last => {
                let (base, flags) = last.map_or((0, 0), |last| (last.base, last.flags));
                units.push(Unit {
                    at,
                    class: if is_mark { Alphabetic } else { class },
                    is_wide: char.width() == Some(2),
                    is_joined: class == Joiner,
                    base: if class == Space { base } else { count },
                    flags: if class == Flag { flags + 1 } else { 0 },
                });
            }
        }
    }
    units
}

/// May the line be broken before this unit? The rules in their order; the first that knows decides.
fn is_break(units: &[Unit], at: usize) -> bool {
    let (last, next) = (units[at - 1], units[at]);
    // What stands before the spaces, if there are any.
    let base = units[last.base].class;
    match (base, last.class, next.class) {
        (_, Mandatory, _) => return true,
        (_, _, Mandatory | Space | ZeroWidthSpace) => return false,
        (ZeroWidthSpace, ..) => return true,
        _ if last.is_joined => return false,
        (_, WordJoiner | Glue, _) | (_, _, WordJoiner) => return false,
        (_, Space | BreakAfter | Hyphen, Glue) => {}
        (_, _, Glue) => return false,
        (_, _, ClosePunctuation | CloseParenthesis | Exclamation | Infix | Slash) => return false,
        (OpenPunctuation, ..) => return false,
        (QuoteOpen, ..) if is_at_start(units, last.base) => return false,
        (_, _, QuoteClose) if is_at_end(units, at) => return false,
        (ClosePunctuation | CloseParenthesis, _, NonStarter) => return false,
        (Dash, _, Dash) => return false,
        _ => {}
    }
    let is_kept = match (last.class, next.class) {
        (Space, _) => false,
        (Quote | QuoteOpen | QuoteClose | BreakBefore, _) => true,
        (_, Quote | QuoteOpen | QuoteClose) => true,
        (_, BreakAfter | Hyphen | NonStarter | Inseparable) => true,
        (Alphabetic | Numeric | Infix, Alphabetic) => true,
        (Alphabetic | Numeric, Numeric | Prefix | Postfix) => true,
        (Hyphen | Infix | Slash, Numeric) => true,
        (Prefix, Ideographic) | (Ideographic, Postfix) => true,
        (Prefix | Postfix, Alphabetic | Numeric | OpenPunctuation) => true,
        (ClosePunctuation | CloseParenthesis, Prefix | Postfix) => true,
        (Alphabetic | Numeric, OpenPunctuation) => !next.is_wide,
        (CloseParenthesis, Alphabetic | Numeric) => !last.is_wide,
        (Flag, Flag) => last.flags % 2 == 1,
        _ => false,
    };
    !is_kept
}

/// Does the quotation mark at this unit open?
fn is_at_start(units: &[Unit], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| {
        let class = units[before].class;
        matches!(class, Mandatory | OpenPunctuation | Glue | Space | ZeroWidthSpace)
            || matches!(class, Quote | QuoteOpen | QuoteClose)
    })
}

/// Does the quotation mark at this unit close?
fn is_at_end(units: &[Unit], at: usize) -> bool {
    units.get(at + 1).is_none_or(|after| {
        matches!(after.class, Mandatory | Glue | Space | ZeroWidthSpace | WordJoiner)
            || matches!(after.class, Quote | QuoteOpen | QuoteClose | Exclamation | Infix | Slash)
            || matches!(after.class, ClosePunctuation | CloseParenthesis)
    })
}

fn class(char: char) -> Class {
    match char {
        ' ' => Space,
        '\r' | '\n' | '\u{2028}' | '\u{2029}' => Mandatory,
        '\t' | '|' | '\u{ad}' | '\u{2010}' | '\u{2012}' | '\u{2013}' | '\u{3000}' => BreakAfter,
        '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200a}' | '\u{1680}' | '\u{205f}' => BreakAfter,
        '´' => BreakBefore,
        '—' => Dash,
        '-' => Hyphen,
        '!' | '?' | '！' | '？' => Exclamation,
        '"' | '\'' => Quote,
        '«' | '‘' | '“' | '‹' => QuoteOpen,
        '»' | '’' | '”' | '›' => QuoteClose,
        '$' | '+' | '\\' | '£' | '¤' | '¥' | '±' | '€' | '№' | '−' => Prefix,
        '%' | '¢' | '°' | '‰' | '′' | '″' | '℃' => Postfix,
        '(' | '[' | '{' | '¡' | '¿' | '‚' | '„' => OpenPunctuation,
        '（' | '［' | '｛' | '〈' | '《' | '「' | '『' | '【' | '〔' | '｢' => {
            OpenPunctuation
        }
        ')' | ']' => CloseParenthesis,
        '}' | '）' | '］' | '｝' | '〉' | '》' | '」' | '』' | '】' | '〕' | '｣' | '、' | '。'
        | '，' | '．' => ClosePunctuation,
        ',' | '.' | ':' | ';' => Infix,
        '/' => Slash,
        '0'..='9' => Numeric,
        '…' | '‥' => Inseparable,
        'ぁ' | 'ぃ' | 'ぅ' | 'ぇ' | 'ぉ' | 'っ' | 'ゃ' | 'ゅ' | 'ょ' | 'ゎ' => NonStarter,
        'ァ' | 'ィ' | 'ゥ' | 'ェ' | 'ォ' | 'ッ' | 'ャ' | 'ュ' | 'ョ' | 'ヮ' => NonStarter,
        '々' | 'ー' | '・' | '：' | '；' | '゛' | '゜' | 'ゝ' | 'ゞ' | 'ヽ' | 'ヾ' => {
            NonStarter
        }
        '\u{a0}' | '\u{202f}' | '\u{2007}' | '\u{2011}' => Glue,
        '\u{2060}' | '\u{feff}' => WordJoiner,
        '\u{200b}' => ZeroWidthSpace,
        '\u{200d}' => Joiner,
        '\u{1f1e6}'..='\u{1f1ff}' => Flag,
        _ if char.is_ascii() => Alphabetic,
        _ => match char.width() {
            Some(0) => Mark,
            Some(2) => Ideographic,
            _ => Alphabetic,
        },
    }
}
