//! What templates mean, and what is said of those that cannot be read or have no bound.

use serde_json::{Value, json};
use toolcrib_catalog::TemplateLanguage;

use super::Context;
use super::{Fault, JsonPath, TEMPLATE_BYTES, Template, TemplateError, Tree};

fn context() -> Value {
    json!({
        "input": {"name": "ada", "count": 3, "flag": true, "ratio": 1.5, "empty": "", "none": null, "text": "true",
                  "tags": ["b", "a", "b"], "url": "https://x.org/a/repo.git", "json": "{\"k\":[1,2]}", "fail_at": "step_2"},
        "results": {"pods": {"items": [{"name": "p1", "port": 80}, {"name": "p2", "port": 81}]}, "get-list": {"n": 7},
                    "plain": "only text"},
        "vars": {"item": {"id": 9}, "item_index": 0},
        "context": {},
    })
}

fn go(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, TemplateLanguage::Go)
}

fn jinja(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, TemplateLanguage::Jinja)
}

fn render(text: &str) -> Result<Value, TemplateError> {
    go(text)?.render(&Context::from(&context()))
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "tables read better")]
fn check_jinja(text: &str, expected: Value) {
    let rendered = jinja(text).and_then(|template| template.render(&Context::from(&context())));
    assert_eq!(rendered.unwrap_or_else(|error| panic!("{text}: {error}")), expected, "{text}");
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "tables read better")]
fn check(text: &str, expected: Value) {
    match render(text) {
        Ok(value) => assert_eq!(value, expected, "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn fails(text: &str, fault: &Fault, parts: &[&str]) {
    let error = render(text).expect_err(text);
    assert_eq!(std::mem::discriminant(&error.fault), std::mem::discriminant(fault), "{text}: {error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{text}: {error} lacks {part}");
    }
}

#[test]
fn a_bare_field_keeps_its_type() {
    for (text, expected) in [
        ("{{ .input.count }}", json!(3)),
        ("{{.input.flag}}", json!(true)),
        ("{{ .input.tags }}", json!(["b", "a", "b"])),
        ("{{ .results.pods.items[1].port }}", json!(81)),
        ("{{ .results.pods.items.0.name }}", json!("p1")),
        ("{{ .results.get-list.n }}", json!(7)),
        ("{{ $.input.name }}", json!("ada")),
        ("{{ .input.none }}", Value::Null),
        ("{{ .input.text }}", json!("true")),
    ] {
        check(text, expected);
    }
    check_jinja("{{ input.count }}", json!(3));
    check_jinja("{{ results.pods['items'][0].name }}", json!("p1"));
    check_jinja("{{ vars.item }}", json!({"id": 9}));
}

#[test]
fn everything_else_is_text_but_for_truth_lists_and_maps() {
    check("no field at all", json!("no field at all"));
    check("true", json!("true"));
    check("{{ eq .input.fail_at \"step_2\" }}", json!(true));
    check("{{ .input.flag }}!", json!("true!"));
    check("n={{ .input.count }}", json!("n=3"));
    check("{{ .input.count }}{{ .input.count }}", json!("33"));
    check("{{ add .input.count 1 }}", json!("4"));
    check(
        "all: {{ .results.pods.items }}",
        json!("all: [{\"name\":\"p1\",\"port\":80},{\"name\":\"p2\",\"port\":81}]"),
    );
    check("{{ splitList \",\" \"a,b\" }}", json!(["a", "b"]));
    check("{{ .input.json | fromJson }}", json!({"k": [1, 2]}));
    check("{{ toJson .input.tags }}", json!("[\"b\",\"a\",\"b\"]"));
    check("{{ \"5\" | fromJson }}", json!(5));
    check("{{ .input.ratio }} {{ mulf .input.ratio 2 }}", json!("1.5 3"));
}

#[test]
fn go_blocks_loops_and_variables() {
    check("{{ if .input.flag }}yes{{ else }}no{{ end }}", json!("yes"));
    check("{{ if eq .input.count 1 }}1{{ else if gt .input.count 2 }}many{{ else }}few{{ end }}", json!("many"));
    check("{{ range .results.pods.items }}{{ .name }};{{ end }}", json!("p1;p2;"));
    check(
        "{{ range $i, $p := .results.pods.items }}{{ $i }}={{ $p.name }}/{{ $.input.name }} {{ end }}",
        json!("0=p1/ada 1=p2/ada "),
    );
    check("{{ range $k, $v := .vars.item }}{{ $k }}{{ $v }}{{ end }}", json!("id9"));
    check("{{ range .input.none }}x{{ else }}nothing{{ end }}", json!("nothing"));
    check("{{ with .vars.item }}{{ .id }}{{ end }}", json!("9"));
    check("{{ with $x := .input.name }}{{ $x }}{{ . }}{{ end }}", json!("adaada"));
    check("{{ with .input.empty }}x{{ else }}{{ .input.name }}{{ end }}", json!("ada"));
    check("{{ $n := len .input.tags }}{{ $n }} {{- \" tags\" -}} !", json!("3 tags!"));
    check("a {{- /* a }} note */ -}} b", json!("ab"));
}

#[test]
fn functions_of_go_and_sprig() {
    for (text, expected) in [
        ("{{ .input.missing | default \"d\" }}", json!("d")),
        ("{{ default 5 .input.count }}", json!("3")),
        ("{{ coalesce .input.gone .input.empty .input.name }}", json!("ada")),
        ("{{ .input.name | upper | quote }}", json!("\"ADA\"")),
        ("{{ title \"hello world\" }}", json!("Hello World")),
        ("{{ trimSuffix \".git\" (basename .input.url) }}", json!("repo")),
        ("{{ join \"-\" .input.tags }}", json!("b-a-b")),
        ("{{ .input.tags | uniq | sortAlpha | join \",\" }}", json!("a,b")),
        ("{{ (split \"/\" .input.url)._2 }}", json!("x.org")),
        ("{{ index .results.pods.items 1 \"name\" }}", json!("p2")),
        ("{{ (index .results.pods.items 0).port }}", json!("80")),
        ("{{ index .results \"get-list\" \"n\" }}", json!("7")),
        (
            "{{ printf \"%s-%03d|%5.1f|%-4s|%q|%v%%\" .input.name 7 2.25 \"x\" \"q\" .input.flag }}",
            json!("ada-007|  2.2|x   |\"q\"|true%"),
        ),
        ("{{ replace \"a\" \"o\" .input.name }}", json!("odo")),
        ("{{ hasPrefix \"https\" .input.url }}", json!(true)),
        ("{{ ternary \"y\" \"n\" .input.flag }}", json!("y")),
        ("{{ and .input.flag (not .input.empty) (lt .input.count 5) }}", json!(true)),
        ("{{ or .input.empty .input.name }}", json!("ada")),
        (
            "{{ int \"12\" }}{{ int64 3.9 }}{{ sub 5 2 }}{{ div 7 2 }}{{ mod 7 4 }}{{ max 1 9 3 }}",
            json!("123333 9".replace(' ', "")),
        ),
        ("{{ len .input.name }}", json!("3")),
        ("{{ hasKey .input \"name\" }}", json!(true)),
        ("{{ dict \"a\" 1 | toJson }}", json!("{\"a\":1}")),
        ("{{ list 1 2 3 | rest }}", json!([2, 3])),
        ("{{ dig \"a\" \"b\" \"none\" .vars }}", json!("none")),
        ("{{ regexReplaceAll \"[aeiou]\" \"hello\" \"*\" }}", json!("h*ll*")),
        (
            "{{ snakecase \"someName here\" }} {{ kebabcase \"SomeName\" }} {{ camelcase \"some_name\" }}",
            json!("some_name_here some-name SomeName"),
        ),
        ("{{ b64enc \"hello\" }}", json!("aGVsbG8=")),
        ("{{ ne .input.name \"bob\" }}", json!(true)),
        ("{{ eq .input.count 3 }}", json!(true)),
        ("{{ trunc 2 .input.name }}{{ substr 1 2 .input.name }}{{ repeat 2 \"x\" }}", json!("addxx")),
        ("{{ until 3 | join \",\" }}", json!("0,1,2")),
        ("{{ kindOf .input.tags }}", json!("slice")),
    ] {
        check(text, expected);
    }
}

#[test]
fn jinja_is_taken_as_it_is() {
    check_jinja(
        "{% for p in results.pods.items %}{{ p.name }}{% if not loop.last %},{% endif %}{% endfor %}",
        json!("p1,p2"),
    );
    check_jinja("{{ input.name | upper }}", json!("ADA"));
    check_jinja("{{ input.missing | default('d') }}", json!("d"));
    check_jinja("{{ input.count + 1 }}", json!("4"));
    check_jinja("{{ input.count > 2 and input.flag }}", json!(true));
    check_jinja("{{ input.tags | join('+') }}", json!("b+a+b"));
    check_jinja("{{ input.json | fromjson }}", json!({"k": [1, 2]}));
    check_jinja("{{ input.tags | first }} {{ input.name ~ '!' }}", json!("b ada!"));
    check_jinja("{{ input.url | trimPrefix('https://') }}", json!("x.org/a/repo.git"));
    check_jinja("{{ input.name is defined }}", json!(true));
    check_jinja("{{ 'x' if input.flag else 'y' }}", json!("x"));
    check_jinja("{{ results['get-list'].n }} of {{ input.count }}", json!("7 of 3"));
}

#[test]
fn what_is_missing_is_named() {
    for text in [
        "{{ .context.non_existent_value }}",
        "a {{ .context.non_existent_value }}",
        "{{ upper .context.non_existent_value }}",
    ] {
        fails(text, &Fault::Missing(String::new()), &["non_existent_value"]);
    }
    for text in [
        "{{ context.non_existent_value }}",
        "x {{ context.non_existent_value | upper }}",
        "{{ context.non_existent_value ~ 'a' }}",
        "{{ nothing }}",
    ] {
        let error = jinja(text).unwrap().render(&Context::from(&context())).expect_err(text);
        assert!(matches!(error.fault, Fault::Missing(_)), "{text}: {error}");
        assert!(error.to_string().contains(if text.contains("nothing") { "nothing" } else { "non_existent_value" }));
    }
    fails("{{ .input.nme }}", &Fault::Missing(String::new()), &["no `nme` in `.input`", "there is count, empty"]);
    fails(
        "{{ .results.plain.field }}",
        &Fault::Missing(String::new()),
        &["no `field` in `.results.plain`, which is a string"],
    );
    fails("{{ .results.pods.items[7].name }}", &Fault::Missing(String::new()), &["no `7`", "a list of 2"]);
    fails("{{ range .results.pods.items }}{{ .nme }}{{ end }}", &Fault::Missing(String::new()), &["no `nme`"]);
    fails("{{ index .results.pods.items 9 }}", &Fault::Missing(String::new()), &["no `9`"]);
    // A branch that is not taken asks for nothing.
    check("{{ if .input.flag }}a{{ else }}{{ .input.gone }}{{ end }}", json!("a"));
}

#[test]
fn what_cannot_be_read_is_told_when_it_is_read() {
    for (text, part) in [
        ("{{ .input.x", "no `}}` at its end"),
        ("{{ if .input.x }}a", "has no `{{ end }}`"),
        ("{{ end }}", "without an open block"),
        ("{{ uper .input.x }}", "no function `uper`"),
        ("{{ tojson .input.x }}", "did you mean toJson?"),
        ("{{ upper .a .b }}", "takes 1 values, got 2"),
        ("{{ $x }}", "`$x` is not declared"),
        ("{{ $x = 1 }}", "once, with `:=`"),
        ("{{ define \"a\" }}{{ end }}", "`define` is not supported"),
        ("{{ .a | 5 }}", "expected a function"),
        ("{{ \"open }}", "no `}}`"),
        ("{{ (eq 1 1 }}", "`(` without `)`"),
        ("{{ nothing }}", "no function `nothing`"),
        // The other language is named.
        ("{{ .a }}{% if b %}{% endif %}", "say `templates: jinja`"),
        ("{{ input.x }}", "expected `.input` (or say `templates: jinja` in the definition), got `input`"),
        ("a {{ upper input.x }}", "no function `input`"),
    ] {
        let error = go(text).expect_err(text);
        assert_eq!(error.fault, Fault::Syntax, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    for (text, part) in [
        ("{{ .a }}", "not a template"),
        ("{% set x = 1 %}", "`{% set %}` is not supported"),
        ("{% include 'a' %}", "not supported"),
        ("{{ 'a' * 9 }}", "`*` is not supported"),
        ("{{ a. }}", "not a template"),
        ("{% for x in y %}", "not a template"),
    ] {
        let error = jinja(text).expect_err(text);
        assert_eq!(error.fault, Fault::Syntax, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    let long = format!("{{{{ .a }}}}{}", "x".repeat(TEMPLATE_BYTES));
    assert!(go(&long).is_err());
    for deep in [
        format!("{{{{ {}.a{} }}}}", "(upper ".repeat(5_000), ")".repeat(5_000)),
        format!("{}{}", "{{ if .a }}".repeat(4_000), "{{ end }}".repeat(4_000)),
        format!("{{{{ {}a{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{}{}", "{% if a %}".repeat(2_000), "{% endif %}".repeat(2_000)),
        format!("{{{{ a{} }}}}", "[0]".repeat(15_000)),
        format!("{{{{ a{} }}}}", " | upper".repeat(7_000)),
        format!("{{{{ .a{} }}}}", " | upper".repeat(7_000)),
        format!("{{{{ {} a }}}}", "not ".repeat(15_000)),
    ] {
        for template in [go(&deep), jinja(&deep)].into_iter().flatten() {
            assert!(template.render(&Context::from(&json!({"a": []}))).is_err(), "{}", &deep[..40]);
        }
    }
}

#[test]
fn what_has_no_bound_is_an_error() {
    let too_much = &Fault::TooMuch;
    fails("{{ repeat 9000000 \"x\" }}", too_much, &["more than"]);
    fails("{{ $a := repeat 100000 \"x\" }}{{ replace \"x\" $a $a }}", too_much, &["more than"]);
    fails("{{ range 10001 }}x{{ end }}", too_much, &["at most 10000"]);
    fails("{{ range until 9999 }}{{ range until 9999 }}x{{ end }}{{ end }}", too_much, &["exceeds the limit of steps"]);
    let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
    let error = jinja(loops).unwrap().render(&Context::from(&context())).expect_err(loops);
    assert_eq!(error.fault, Fault::TooMuch, "{error}");
    assert!(error.to_string().contains("exceeds the limit of steps"), "{error}");
    let doubling = format!("{{{{ $a := list 1 2 }}}}{}{{{{ toJson $a }}}}", "{{ $a := list $a $a }}".repeat(40));
    fails(&doubling, too_much, &["too large"]);
    let doubling = format!("{{{{ $a := \"xx\" }}}}{}{{{{ $a }}}}", "{{ $a := cat $a $a }}".repeat(40));
    fails(&doubling, too_much, &["more than"]);
    fails("{{ range until 9999 }}{{ printf \"%999d\" 1 }}{{ end }}", too_much, &["more than"]);
    fails("{{ until 20000 }}", &Fault::Failed, &["at most 10000"]);
    fails("{{ div 1 0 }}", &Fault::Failed, &["has no result"]);
    fails("{{ add 9223372036854775807 1 }}", &Fault::Failed, &["64 bits"]);
    fails("{{ regexMatch \"(a{1000}){1000}\" \"a\" }}", &Fault::Failed, &["size limit"]);
    fails("{{ lt .input.name 3 }}", &Fault::Failed, &["cannot compare"]);
    fails("{{ fromJson .input.name }}", &Fault::Failed, &["is not JSON"]);
    fails("{{ fail \"not this way\" }}", &Fault::Failed, &["not this way"]);
}

#[test]
fn a_tree_names_the_place_of_what_is_wrong() {
    let tree =
        Tree::parse(&json!({"a": {"b": ["x", "{{ .input.count }}"]}, "n": 1, "keep": "true"}), TemplateLanguage::Go)
            .expect("a tree");
    assert_eq!(
        tree.render(&Context::from(&context())).expect("rendered"),
        json!({"a": {"b": ["x", 3]}, "n": 1, "keep": "true"})
    );
    assert!(Tree::parse(&json!({"a": [1, "x"]}), TemplateLanguage::Go).expect("plain").is_plain());
    let error =
        Tree::parse(&json!({"a": {"b": ["x", "{{ .input.count"]}}), TemplateLanguage::Go).expect_err("not a template");
    assert_eq!(error.field(), "a.b[1]");
    let tree =
        Tree::parse(&json!({"text": "{{ .context.non_existent_value }}"}), TemplateLanguage::Go).expect("a tree");
    let error = tree.render(&Context::from(&context())).expect_err("missing");
    assert!(error.to_string().starts_with("`text`: no `non_existent_value` in `.context`"), "{error}");
    assert_eq!(error.fault, Fault::Missing("non_existent_value".to_owned()));
}

#[test]
fn paths_of_conditions() {
    let value = json!({"a": {"b": [{"c": 1}]}, "args.echo": "flat", "x": {"0": "zero"}});
    for (path, expected) in [
        ("a.b[0].c", Some(json!(1))),
        ("$.a.b.0.c", Some(json!(1))),
        (".a.b", Some(json!([{"c": 1}]))),
        ("args.echo", Some(json!("flat"))),
        ("x[0]", Some(json!("zero"))),
        ("a.b[4].c", None),
        ("a.nothing.at.all", None),
        ("$", Some(value.clone())),
        ("$['args.echo']", Some(json!("flat"))),
    ] {
        let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} is a path"));
        assert_eq!(parsed.find(&value), expected.as_ref(), "{path}");
    }
    for text in ["a..b", "a[", "a[x]", "a.", "[0]x"] {
        assert!(JsonPath::parse(text).is_none(), "{text}");
    }
}

#[test]
fn what_is_below_a_root_can_be_exchanged_and_is_seen_by_both_languages() {
    let mut context = Context::from(&json!({"input": {"n": 1}, "results": {}, "list": [1, 2]}));
    let check_in = |language, context: &Context, text: &str, expected: Value| {
        let template = Template::parse(text, language).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(template.render(context).unwrap_or_else(|error| panic!("{text}: {error}")), expected, "{text}");
    };
    context.set("results", &["say_0", "say"], json!({"deep": [{"a": "x"}, {"a": "y"}], "n": 2}), None);
    for (text, expected) in [
        ("{{ .results.say.deep[1].a }}", json!("y")),
        ("{{ .results.say_0.deep }}", json!([{"a": "x"}, {"a": "y"}])),
        ("{{ .context.say.n }}", json!(2)),
        ("{{ len .results }}", json!("2")),
        ("{{ len .list }} {{ index .list 1 }}", json!("2 2")),
        ("{{ index .results \"say\" \"n\" }}", json!("2")),
        ("{{ range $k, $v := .results }}{{ $k }}{{ $v.n }} {{ end }}", json!("say2 say_02 ")),
        ("{{ .results.say.deep | last }}", json!({"a": "y"})),
        ("{{ keys .results | join \",\" }}", json!("say,say_0")),
        ("{{ hasKey .results \"say\" }}", json!(true)),
        ("{{ .results.gone | default \"none\" }}", json!("none")),
        (
            "{{ .results | toJson }}",
            json!(
                "{\"say\":{\"deep\":[{\"a\":\"x\"},{\"a\":\"y\"}],\"n\":2},\"say_0\":{\"deep\":[{\"a\":\"x\"},{\"a\":\"y\"}],\"n\":2}}"
            ),
        ),
    ] {
        check_in(TemplateLanguage::Go, &context, text, expected);
    }
    for (text, expected) in [
        ("{{ results.say.deep | length }}", json!("2")),
        ("{% for key in results %}{{ key }} {% endfor %}", json!("say say_0 ")),
        ("{{ results | length }}", json!("2")),
        ("{{ results.say.deep[0].a ~ results.say.n }}", json!("x2")),
    ] {
        check_in(TemplateLanguage::Jinja, &context, text, expected);
    }
    let check = |context: &Context, text, expected| check_in(TemplateLanguage::Go, context, text, expected);
    let before = context.clone();
    context.set("results", &["say"], json!("new"), None);
    check(&context, "{{ .results.say | upper }}", json!("NEW"));
    check(&context, "{{ .results.say_0.n | add 1 }}", json!("3"));
    check(&before, "{{ .results.say.n | add 1 }}", json!("3"));
    context.remove("results", "say");
    let error = go("{{ .results.say }}").unwrap().render(&context).expect_err("it is gone");
    assert!(error.message().contains("no `say` in `.results`; there is say_0"), "{error}");
    let error = go("{{ upper .nothing }}").unwrap().render(&context).expect_err("no such root");
    assert!(error.message().contains("no `nothing` here; there is input, list, results"), "{error}");
}

#[test]
fn functions_go_through_no_more_than_a_bound_in_all() {
    let texts: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
    let context = Context::from(&json!({"input": {"i": texts, "t": "a".repeat(1_000_000)}}));
    for template in [
        "{{ range until 10000 }}{{ $x := toJson $.input.i }}{{ end }}",
        "{{ range until 10000 }}{{ $x := sortAlpha $.input.i }}{{ end }}",
        "{{ range until 10000 }}{{ $x := upper $.input.t }}{{ end }}",
        "{{ range until 10000 }}{{ $x := regexMatch (printf \"a{1,500}%d\" .) \"a\" }}{{ end }}",
    ]
    .map(go)
    .into_iter()
    .chain(
        [
            "{% for x in input.i %}{% if input.i | sort | first %}{% endif %}{% endfor %}",
            "{% for x in input.i %}{% if input.i | map('upper') | list %}{% endif %}{% endfor %}",
        ]
        .map(jinja),
    ) {
        let template = template.unwrap();
        let text = template.text();
        let error = template.render(&context).expect_err(text);
        assert_eq!(error.fault, Fault::TooMuch, "{text}: {error}");
        assert!(error.message().contains("exceeds the limit of work in functions"), "{text}: {error}");
    }
    // What goes through it once for each item, or looks at each item, is far below.
    for template in [
        go("{{ range .input.i }}{{ upper . }}{{ regexMatch \"^1\" . }}{{ end }}"),
        jinja("{% for x in input.i | sort %}{{ x | upper }}{% endfor %}"),
        go("{{ range $at, $x := .input.i }}{{ len $.input.i }}{{ index $.input.i $at }}{{ end }}"),
    ] {
        let template = template.unwrap();
        template.render(&context).unwrap_or_else(|error| panic!("{}: {error}", template.text()));
    }
}

#[test]
fn clock_functions_show_the_moment_of_the_rendering() {
    // 2026-03-09T05:06:07.089Z, a Monday.
    let now = toolcrib_base::Timestamp::parse("2026-03-09T05:06:07.089Z").unwrap();
    let render = |text: &str| go(text)?.render(&Context::from(&context()).at(now));
    for (text, expected) in [
        (r#"{{ now | date "2006-01-02T15:04:05Z07:00" }}"#, "2026-03-09T05:06:07Z"),
        ("{{ now }}", "2026-03-09T05:06:07.089Z"),
        (r#"{{ date "Mon, 02 Jan 2006 15:04:05 MST" now }}"#, "Mon, 09 Mar 2026 05:06:07 UTC"),
        (
            r#"{{ now | date "Monday January 2 _2 3:04PM 03pm 1 06 -0700" }}"#,
            "Monday March 9  9 5:06AM 05am 3 26 +0000",
        ),
        (r#"{{ now | date "002 .000 .999999 ,00 .0001" }}"#, "068 .089 .089 ,08 .0003"),
        (r#"{{ now | date "Month Janet é at 15h" }}"#, "Month Janet é at 05h"),
        (r#"{{ now | date "" }}x"#, "x"),
        ("{{ now | htmlDate }}-{{ now | unixEpoch }}", "2026-03-09-1773032767"),
        (r#"{{ now | dateModify "-48h30m" | date "2006-01-02 15:04" }}"#, "2026-03-07 04:36"),
        (r#"{{ dateInZone "15:04" now "UTC" }}"#, "05:06"),
        (r#"{{ date "2006-01-02" 0 }} {{ date "15:04" "1970-01-01T23:30:00+01:00" }}"#, "1970-01-01 22:30"),
        (r#"{{ now | date "2006" | printf "%s!" }}"#, "2026!"),
        (r#"{{ .input.name }}-{{ now | date "20060102-150405" }}"#, "ada-20260309-050607"),
        (r#"{{ date "Mon 002" "2024-12-31T00:00:00Z" }}"#, "Tue 366"),
    ] {
        assert_eq!(render(text).unwrap_or_else(|error| panic!("{text}: {error}")), json!(expected), "{text}");
    }
    let called = jinja(r#"{{ now() | date("2006-01-02") }}"#).unwrap();
    assert_eq!(called.render(&Context::from(&context()).at(now)).unwrap(), json!("2026-03-09"));
    for (text, part) in [
        (r#"{{ now | date }}"#, "`date` takes 2 values, got 1"),
        (r#"{{ date "2006" "soon" }}"#, "expected a time such as"),
        (r#"{{ date "2006" 99999999999999999 }}"#, "expected a time such as"),
        (r#"{{ dateInZone "15:04" now "Mars/Base" }}"#, "unknown time zone `Mars/Base`"),
        (r#"{{ now | dateModify "a while" }}"#, "expected a period such as"),
        (r#"{{ now | dateModify "" }}"#, "expected a period such as"),
        ("{{ randAlphaNum 5 }}", "function `randAlphaNum` is not available: it is random"),
        ("{{ uuidv4 }}", "a resumed run must render the same text"),
        (r#"{{ env "HOME" }}"#, "reads the environment"),
        (r#"{{ getHostByName "x" }}"#, "uses the network"),
    ] {
        let error = render(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    fails("{{ now }}", &Fault::Failed, &["`now` works only", "in templates of a workflow"]);
}
