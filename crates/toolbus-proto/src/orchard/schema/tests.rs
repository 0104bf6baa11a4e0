use super::*;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

const ECHO: &str = r#"{"name":"echo","version":"0.1.0","protocol":"1","config":{"greeting":{"type":"string","required":false,"default":"hi","description":"word put first"}},"actions":{"echo":{"description":"gives its text back","attrs":{"text":{"type":"string","required":true},"times":{"type":"number","required":false,"default":1}},"outputs":{"type":"object({text=string,times=number})","required":false}},"noop":{"description":"does nothing"}},"extensions":["parallel"]}"#;

#[test]
fn what_we_write_is_what_we_read() {
    let (schema, notes) = ProviderSchema::read(&json(ECHO)).unwrap();
    assert_eq!(schema.write().as_str(), ECHO);
    assert_eq!(notes, []);
    assert!(schema.is_parallel());
    for action in schema.actions.values() {
        assert_eq!(Action::read(&action.write()).as_ref(), Ok(action));
    }
}

#[test]
fn little_is_enough() {
    let (schema, notes) =
        ProviderSchema::read(&json(r#"{"protocol":"1","name":"x","config":null,"version":7}"#))
            .unwrap();
    let written = r#"{"name":"x","version":"7","protocol":"1","config":{},"actions":{}}"#;
    assert_eq!(schema.write().as_str(), written);
    assert_eq!(
        notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["version: should be a string"]
    );
}

#[test]
fn what_is_odd_is_noted() {
    let attrs = r#"{
        "a":{"type":"string","required":true,"default":"\"GET\"","format":"x"},
        "b":{"type":"number","default":"5"},
        "c":{"type":"list(string)","default":"[\"x\"]","sensitive":true},
        "d":{"type":"string","default":"5"},
        "e":{"type":"string","default":5},
        "f":{"type":"any","default":"plain"},
        "odd name":{"type":"bool","default":"\"true\"","description":""}
    }"#;
    let text = format!(
        r#"{{"name":"x","version":"","protocol":"1","more":1,"actions":{{"get":{{"attrs":{attrs}}}}}}}"#
    );
    let (schema, notes) = ProviderSchema::read(&json(&text)).unwrap();
    let attrs = &schema.actions["get"].attrs;
    let defaults: Vec<_> =
        attrs.values().map(|attr| attr.default.as_ref().unwrap().as_str()).collect();
    assert_eq!(defaults, [r#""GET""#, "5", r#"["x"]"#, r#""5""#, r#""5""#, r#""plain""#, "true"]);
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "more: the protocol has no such member",
            "actions.get.attrs.a.format: the protocol has no such member",
            "actions.get.attrs.a: the default is encoded twice, write it as plain JSON",
            "actions.get.attrs.a: required, and yet it has a default",
            "actions.get.attrs.b: the default is encoded twice, write it as plain JSON",
            "actions.get.attrs.c: the default is encoded twice, write it as plain JSON",
            "actions.get.attrs[\"odd name\"]: the default is encoded twice, write it as plain JSON",
        ]
    );
    let wanted = r#"{"type":"object","properties":{"a":{"type":"string","default":"GET"},"b":{"type":"number","default":5},"c":{"type":"array","items":{"type":"string"},"default":["x"],"writeOnly":true},"d":{"type":"string","default":"5"},"e":{"type":"string","default":"5"},"f":{"default":"plain"},"odd name":{"type":"boolean","default":true}},"required":["a"],"additionalProperties":false}"#;
    assert_eq!(json_schema_of(attrs).as_str(), wanted);
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    let with = |member: &str| format!(r#"{{"protocol":"1","name":"x",{member}}}"#);
    for (text, refusal, hint) in [
        ("[]".to_owned(), "want object, got list", None),
        (
            r#"{"name":"x"}"#.to_owned(),
            r#"does not say which protocol it speaks, this host speaks "1""#,
            Some(r#"the schema must hold `"protocol":"1"`"#),
        ),
        (
            r#"{"protocol":1}"#.to_owned(),
            r#"speaks protocol 1, this host speaks "1""#,
            Some(r#"`protocol` must be the string "1""#),
        ),
        (r#"{"protocol":"2"}"#.to_owned(), r#"speaks protocol "2", this host speaks "1""#, None),
        (r#"{"protocol":"1"}"#.to_owned(), "name: missing", None),
        (r#"{"protocol":"1","name":""}"#.to_owned(), "name: must not be empty", None),
        (r#"{"protocol":"1","name":5}"#.to_owned(), "name: want string, got number", None),
        (with(r#""actions":[]"#), "actions: want object, got list", None),
        (
            with(r#""actions":{"a b":{}}"#),
            "actions[\"a b\"]: an action's name must be an identifier: letters, digits, `_` and `-`, not a digit first",
            None,
        ),
        (with(r#""actions":{"a":5}"#), "actions.a: want object, got number", None),
        (
            with(r#""actions":{"a":{"attrs":{"t":{"type":"list(strng)"}}}}"#),
            "actions.a.attrs.t.type: there is no type `strng`, did you mean `string`?",
            None,
        ),
        (with(r#""actions":{"a":{"attrs":{"t":{}}}}"#), "actions.a.attrs.t.type: missing", None),
        (
            with(r#""actions":{"a":{"attrs":{"t":{"type":"any","required":"yes"}}}}"#),
            "actions.a.attrs.t.required: want bool, got string",
            None,
        ),
        (
            with(r#""actions":{"a":{"outputs":{"type":7}}}"#),
            "actions.a.outputs.type: want string, got number",
            None,
        ),
        (
            with(r#""config":{"k":{"type":"map(number)","default":{"x":"y"}}}"#),
            "config.k.default: x: want number, got string",
            None,
        ),
        (
            with(r#""config":{"k":{"type":"bool","sensitive":1}}"#),
            "config.k.sensitive: want bool, got number",
            None,
        ),
    ] {
        let error = ProviderSchema::read(&json(&text)).unwrap_err();
        assert_eq!(error.to_string(), refusal, "{text}");
        assert_eq!(error.hint().as_deref(), hint, "{text}");
    }
}

#[test]
fn a_host_sends_attributes_converted_with_defaults() {
    let (schema, _) = ProviderSchema::read(&json(ECHO)).unwrap();
    let attrs = &schema.actions["echo"].attrs;
    let send = |given: Option<&str>| {
        let mut out = Vec::new();
        write_converted("attrs", attrs, given, &mut out).map(|()| String::from_utf8(out).unwrap())
    };
    for (given, sent) in [
        (r#"{"text":"a"}"#, r#"{"text":"a","times":1}"#),
        (r#"{"times":2e1,"text":5}"#, r#"{"text":"5","times":20}"#),
        (r#"{"times":null,"text":"a","text":"\u0062"}"#, r#"{"text":"\u0062","times":1}"#),
    ] {
        assert_eq!(send(Some(given)).as_deref(), Ok(sent));
    }
    for (given, refusal) in [
        (None, "attrs.text: required"),
        (Some("null"), "attrs.text: required"),
        (Some("[]"), "attrs: want object, got list"),
        (Some(r#"{"text":null}"#), "attrs.text: required"),
        (Some(r#"{"txt":"a"}"#), "attrs.txt: unknown attribute, did you mean `text`?"),
        (Some(r#"{"text":"a","times":"many"}"#), "attrs.times: want number, got string"),
    ] {
        assert_eq!(send(given).unwrap_err().to_string(), refusal);
    }
}

#[test]
fn a_provider_takes_attributes_as_they_are() {
    let (schema, _) = ProviderSchema::read(&json(ECHO)).unwrap();
    let attrs = &schema.actions["echo"].attrs;
    assert!(check("attrs", attrs, Some(r#"{"text":"a","times":null}"#)).is_ok());
    for (given, refusal) in [
        (None, "attrs.text: required"),
        (Some(r#"{"text":5}"#), "attrs.text: want string, got number"),
        (Some(r#"{"text":null}"#), "attrs.text: want string, got null"),
        (Some(r#"{"texts":"a"}"#), "attrs.texts: unknown attribute, did you mean `text`?"),
        (Some(r#"{"x":1}"#), "attrs.x: unknown attribute"),
    ] {
        assert_eq!(check("attrs", attrs, given).unwrap_err().to_string(), refusal);
    }
}
