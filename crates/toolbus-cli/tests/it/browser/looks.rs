//! How it looks to everybody: each view in both schemes, wide and narrow, by eyes, by keys, and by
//! those who do not see. The pictures are left in `target/page-pictures`.

use std::fs;
use std::path::Path;

use serde_json::json;
use toolbus_testkit::browser::Scheme;

use super::{Shown, TCP, admin};
use crate::serve::{BUILTIN, back};

const PLACES: [(&str, &str); 7] = [
    ("overview", "view=overview"),
    ("calls", "view=calls"),
    ("call", "view=calls&call=2"),
    ("tools", "view=tools"),
    ("tool", "view=tools&tool=try.count"),
    ("journal", "view=journal"),
    ("config", "view=config"),
];

/// Texts whose colour is too near to what is behind them, with how near.
const PALE: &str = r"(() => {
    const parts = text => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return { rgb: [r, g, b], a } };
    const light = ([...rgb]) => { const [r, g, b] = rgb.map(one => (one /= 255, one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
    const behind = one => { for (let at = one; at; at = at.parentElement) { const it = parts(getComputedStyle(at).backgroundColor); if (it.a === 1) return it.rgb } return [255, 255, 255] };
    const found = [];
    for (const one of document.querySelectorAll('body *')) {
        const says = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
        if (!says || !one.getClientRects().length || one.disabled || one.closest('.unseen, option')) continue;
        const [front, back] = [light(parts(getComputedStyle(one).color).rgb), light(behind(one))];
        const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
        if (ratio < 4.5) found.push(`${one.localName}.${one.className} ${one.textContent.slice(0, 20)}: ${ratio.toFixed(2)}`);
    }
    return found;
})()";

/// Colours of bars that are too near to the ground of the picture.
const PALE_BARS: &str = r"(() => {
    const style = getComputedStyle(document.documentElement);
    const light = hex => { const [r, g, b] = hex.match(/[0-9a-f]{2}/g).map(one => (one = parseInt(one, 16) / 255, one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
    const whole = text => text.trim().length === 4 ? [...text.trim().slice(1)].map(one => one + one).join('') : text.trim().slice(1);
    const of = name => light(whole(style.getPropertyValue('--' + name)));
    return ['ok', 'running', 'failed', 'late', 'gone', 'cancelled'].filter(name => (Math.max(of(name), of('surface')) + 0.05) / (Math.min(of(name), of('surface')) + 0.05) < 3);
})()";

#[test]
fn all_views_in_both_schemes_wide_and_narrow() {
    let journal = "[journal]\npath = \"calls.jsonl\"\narguments = true\nresults = true\n";
    let config = format!(
        "{BUILTIN}{}{TCP}{journal}{}",
        back("away", "stdio:./no-such-oracle"),
        admin("page = \"call\"")
    );
    let Some(shown) = Shown::of(&config, 1) else { return };
    let tab = &shown.tab;
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.call("try.echo", &json!({"long":"x".repeat(300),"list":[1, 2, {"a":null}]}));
    shown.call("try.fail", &json!({"message":"no"}));
    shown.until_there("[data-back=away][data-state=down]");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../page-pictures");
    fs::create_dir_all(&folder).expect("the target folder is ours");
    for (width, scheme) in
        [(1280, Scheme::Light), (1280, Scheme::Dark), (360, Scheme::Light), (360, Scheme::Dark)]
    {
        tab.looks(width, 800, scheme);
        for (name, place) in PLACES {
            shown.go(place);
            tab.until(&format!(
                "{{ overview: '[data-stat]', calls: '[data-call]', call: '[data-detail] [data-part=answer]', tools: '[data-tool]', \
                 tool: 'form[data-form]', journal: '[data-entry]', config: '[data-config]' }}.{name} && \
                 document.querySelector({{ overview: '[data-stat]', calls: '[data-call]', call: '[data-detail] [data-part=answer]', \
                 tools: '[data-number=tools]', tool: 'form[data-form]', journal: '[data-entry]', config: '[data-config]' }}.{name})\
                 .getClientRects().length + ('{name}' === 'tool')"
            ));
            let wide = "[innerWidth < document.documentElement.scrollWidth, [...document.querySelectorAll('body *')].filter(one => \
                        innerWidth + 1 < one.getBoundingClientRect().right && !one.closest('.scroll, pre, .unseen')).map(one => one.outerHTML.slice(0, 80))]";
            assert_eq!(tab.get(wide), json!([false, []]), "{name} at {width}");
            assert_eq!(tab.get(PALE), json!([]), "{name} at {width} in {scheme:?}");
            assert_eq!(tab.get(PALE_BARS), json!([]), "{scheme:?}");
            let file = format!("{name}-{width}-{scheme:?}.png").to_lowercase();
            fs::write(folder.join(file), tab.picture()).expect("the target folder is ours");
        }
    }
    shown.assert_quiet();
}

/// All that can be clicked has a name, is reached by Tab, and shows that it has the focus.
#[test]
fn everything_is_reached_by_the_keyboard() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.go("view=calls&call=1");
    shown.until_there("[data-detail] [data-part=answer]");
    let nameless = "[...document.querySelectorAll('a, button, input, select, textarea')].filter(one => \
                    !(one.ariaLabel || one.textContent.trim() || one.title || one.labels?.length)).map(one => one.outerHTML)";
    assert_eq!(tab.get(nameless), json!([]));
    tab.run("document.activeElement.blur(); window.reached = []; document.addEventListener('focusin', event => { \
             const { outlineStyle, outlineWidth } = getComputedStyle(event.target); \
             reached.push([event.target.outerHTML.slice(0, 60), outlineStyle !== 'none' && parseFloat(outlineWidth) > 1]) })");
    let wanted = "[...document.querySelectorAll('a, button, input, select, textarea')].filter(one => !one.disabled && \
                  one.getClientRects().length && one.tabIndex >= 0).length";
    let wanted = tab.get(wanted).as_u64().expect("a number");
    for _ in 0..wanted + 12 {
        tab.key("Tab");
    }
    let reached = tab.get("new Set(reached.map(one => one[0])).size").as_u64().expect("a number");
    assert!(wanted <= reached + 2, "{reached} of {wanted}: {}", tab.get("reached"));
    assert_eq!(tab.get("reached.filter(one => !one[1]).map(one => one[0])"), json!([]));
    // The keys that are the same everywhere.
    tab.run("document.activeElement.blur()");
    for (key, view) in
        [("1", "overview"), ("2", "calls"), ("3", "tools"), ("4", "journal"), ("5", "config")]
    {
        tab.key(key);
        tab.until(&format!("document.querySelector('a[data-view={view}]').ariaCurrent === 'page' && document.activeElement.localName === 'h2'"));
    }
    tab.key("?");
    tab.until("document.querySelector('dialog[data-help]').open");
    tab.key("Escape");
    tab.until("!document.querySelector('dialog[data-help]').open");
    tab.key("4");
    tab.key("/");
    tab.until("document.activeElement.closest('section[data-view=journal]') && document.activeElement.matches('[data-filter]')");
    // In a field keys are text.
    tab.key("1");
    assert_eq!(tab.text("document.activeElement.value"), "1");
    tab.key("Escape");
    tab.until("document.activeElement === document.body");
    shown.assert_quiet();
}

/// Who wants no movement gets none, and a hidden tab draws nothing.
#[test]
fn nothing_moves_by_itself() {
    let Some(shown) = Shown::builtin() else { return };
    let moves = "[...document.querySelectorAll('*')].filter(one => { const { animationName, transitionDuration } = getComputedStyle(one); \
                 return animationName !== 'none' || parseFloat(transitionDuration) > 0 }).length";
    assert_eq!(shown.tab.get(moves), 0);
    let names = shown.tab.get(
        "[document.documentElement.lang, document.querySelectorAll('h1').length, document.title]",
    );
    assert_eq!(names[0], "en");
    assert_eq!(names[1], 1);
}
