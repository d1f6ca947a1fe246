//! Precedence, and errors that name their place.

use std::ffi::OsString;
use std::path::Path;

use super::key::Shape;
use super::*;

/// Settings from a file's text, variables and flags.
fn load(file: Option<&str>, variables: &[(&str, &str)], flags: &[&str]) -> Result<Config, Problem> {
    let folder = tempfile::tempdir().unwrap();
    if let Some(text) = file {
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
    }
    let environment: Environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
    let command = <SettingFlags as clap::Args>::augment_args(clap::Command::new("test").no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap();
    let mut low = <SettingFlags as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    low.home = Some(folder.path().to_owned());
    Config::load(&low, &environment).map_err(|mut problem| {
        problem.message = problem.message.replace(&format!("{}/", folder.path().display()), "");
        problem
    })
}

#[test]
fn defaults_come_from_the_table() {
    let config = load(None, &[], &[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8700");
    assert_eq!(config.limits, Limits::default());
    assert_eq!((config.log.as_str(), config.log_format), ("info", LogFormat::Human));
    assert_eq!((config.audit_queue, config.audit_arguments, config.grace), (8192, false, Duration::from_secs(5)));
    assert_eq!((config.events, config.runs), (Retention::EVENTS, Retention::RUNS));
    assert_eq!((config.public_url, config.allowed_hosts), (None, Vec::new()));
    assert!(config.home.config_file().starts_with(config.home.path()));
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let file = Some("listen = '127.0.0.1:1'\n");
    let variable = [("TOOLCRIB_LISTEN", "127.0.0.1:2")];
    let flag = ["--listen", "localhost:3"];
    for (config, port, place) in [
        (load(file, &variable, &flag), 3, "flag `--listen`"),
        (load(file, &variable, &[]), 2, "variable `TOOLCRIB_LISTEN`"),
        (load(file, &[("TOOLCRIB_LISTEN", "")], &[]), 1, "config.toml:1"),
        (load(None, &[], &[]), 8700, "the default"),
    ] {
        let config = config.unwrap();
        assert_eq!(config.listen.port(), port);
        assert!(config.listen_place.ends_with(place), "{}", config.listen_place);
    }
}

#[test]
fn every_key_can_be_given_in_all_three_ways() {
    let values = [
        ("listen", "127.0.0.1:9"),
        ("log", "debug"),
        ("log_format", "json"),
        ("public_url", "https://a.example"),
        ("allowed_hosts", "a.example"),
        ("allowed_origins", "https://a.example"),
        ("tls", "proxy"),
        ("tls.cert", "cert.pem"),
        ("tls.key", "/tls/key.pem"),
        ("tls.client_ca", "clients.pem"),
        ("trusted_proxies", "10.1.0.0/16"),
        ("request_bytes", "2MiB"),
        ("bodies_bytes", "64MiB"),
        ("message_bytes", "1024"),
        ("depth", "32"),
        ("sessions", "9"),
        ("session_idle", "2m"),
        ("audit_queue", "8"),
        ("audit.arguments", "redacted"),
        ("audit.days", "365"),
        ("guard_arguments", "deny"),
        ("guard_results", "redact"),
        ("ui", "read"),
        ("approvals.wait", "1s"),
        ("approvals.webhook", "https://hooks.example/toolcrib"),
        ("approvals.webhook_secret", "vault:hook"),
        ("approvals.webhook_private", "true"),
        ("runners.listen", "unix:state/runners.sock"),
        ("runners.connect", "firecracker:/srv/v.sock:1024"),
        ("runners.secret", "vault:runners"),
        ("runners.runs", "7"),
        ("runners.cert", "cert.pem"),
        ("runners.key", "/tls/key.pem"),
        ("runners.ca", "runners.pem"),
        ("events_kept", "7"),
        ("events_days", "1"),
        ("runs_kept", "7"),
        ("runs_days", "1"),
        ("grace", "1s"),
        ("otlp_endpoint", "http://localhost:4318"),
        ("update.index", "https://downloads.example/index.json"),
        ("update.key", "keys/release.pub"),
        ("update.ca", "/tls/own.pem"),
    ];
    assert_eq!(values.map(|(name, _)| name), KEYS.each_ref().map(|key| key.name));
    assert!(KEYS.iter().all(|key| key.flag == key.name.replace(['_', '.'], "-")));
    let untouched = load(None, &[], &[]).unwrap();
    for (key, (name, value)) in KEYS.iter().zip(values) {
        let line = match key.shape {
            Shape::One => format!("{name} = '{value}'"),
            Shape::List => format!("{name} = ['{value}']"),
        };
        let ways = [
            load(Some(&line), &[], &[]),
            load(None, &[(&key.variable(), value)], &[]),
            load(None, &[], &[&format!("--{}={value}", key.flag)]),
        ];
        let [first, second, third] = ways.map(|config| {
            let config = config.unwrap();
            let (home, listen_place) = (untouched.home.clone(), untouched.listen_place.clone());
            Config { home, listen_place, given: untouched.given.clone(), ..config }
        });
        assert_ne!(first, untouched, "{name}");
        assert_eq!(first, second, "{name}");
        assert_eq!(first, third, "{name}");
    }
    assert!(load(Some("[audit]\narguments = 'redacted'"), &[], &[]).unwrap().audit_arguments);
    let hosts = load(None, &[], &["--allowed-hosts", "A.example,b", "--allowed-hosts", "c:1"]).unwrap().allowed_hosts;
    assert_eq!(hosts, ["a.example", "b", "c:1"]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let check = |text: &str, message: &str, hint: &str| {
        let problem = load(Some(text), &[], &[]).unwrap_err();
        assert!(problem.message.starts_with(message), "{} for {text:?}", problem.message);
        assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{:?} for {text:?}", problem.hint);
        assert_eq!(problem.kind, Kind::Definition);
    };
    check("log = 'info'\nlisen = '127.0.0.1:1'\n", "config.toml:2: unknown key `lisen`", "did you mean `listen`?");
    check("\n\n[server]\nx = 1\n", "config.toml:3: unknown key `server`", "known keys: listen, log");
    check("\n[tls]\nca = 'x'", "config.toml:2: unknown key `tls.ca`", "");
    check("tls = 'own'", "config.toml:1: `tls`: expected `proxy`, or a table", "");
    check("audit.arguments = true", "config.toml:1: `audit.arguments`: expected `hash` or `redacted`", "");
    check("\n[audit]\nargument = 'hash'", "config.toml:2: unknown key `audit.argument`", "");
    check("tls.cert = 1", "config.toml:1: `tls.cert`: expected a path", "");
    for wrong in ["10.1.2.3/16", "10.0.0.0/33", "proxy.example.com", "", "10.0.0.0/8,10.1.0.0/16"] {
        check(&format!("trusted_proxies = ['{wrong}']"), "config.toml:1: `trusted_proxies`: expected addresses", "");
    }
    for wrong in ["0.0.0.0/0", "::/0", "128.0.0.0/1"] {
        check(&format!("trusted_proxies = ['{wrong}']"), "config.toml:1: `trusted_proxies`: expected networks of", "");
    }
    check("listen = 8700\n", "config.toml:1: `listen`: expected an address with a port", "");
    check("depth = 1\n", "config.toml:1: `depth`: expected a number from 8 to 120, got `1`", "");
    check("events_days = 0", "config.toml:1: `events_days`: expected a number of days from 1 to 3650", "");
    check("events_days = 3651", "config.toml:1: `events_days`: expected a number of days", "");
    check("runs_days = '2h'", "config.toml:1: `runs_days`: expected a number of days", "");
    check("runs_kept = -1", "config.toml:1: `runs_kept`: expected a number from 1", "");
    check("request_bytes = -1", "config.toml:1: `request_bytes`: expected a number of bytes", "");
    check("request_bytes = '99999999999GiB'", "config.toml:1: `request_bytes`: expected a number of bytes", "");
    check("allowed_hosts = 'a'", "config.toml:1: `allowed_hosts`: expected host names", "");
    check("allowed_origins = ['https://a/b']", "config.toml:1: `allowed_origins`: expected origins", "");
    check("log = '=='", "config.toml:1: `log`: expected a filter", "");
    check("session_idle = '\u{1}soon'", "config.toml:1: ", "TOML");
    check("grace = \"\\u001b[2J\"", "config.toml:1: `grace`: expected a duration", "");
    check("listen = \n", "config.toml:1: ", "TOML");
    check("log = 'a'\nlog = 'b'\n", "config.toml:2: ", "TOML");
    let problem = load(Some("grace = \"\\u001b[2J\""), &[], &[]).unwrap_err();
    assert!(problem.message.ends_with("got `\\u{1b}[2J`"), "{}", problem.message);
    let problem = load(None, &[("TOOLCRIB_DEPTH", "deep")], &[]).unwrap_err();
    assert_eq!(problem.message, "variable `TOOLCRIB_DEPTH`: `depth`: expected a number from 8 to 120, got `deep`");
    let problem = load(None, &[], &["--log-format", "xml"]).unwrap_err();
    assert_eq!(problem.message, "flag `--log-format`: `log_format`: expected `human` or `json`, got `xml`");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config.toml")).unwrap();
    let low = SettingFlags { home: Some(folder.path().to_owned()), ..SettingFlags::default() };
    let problem = Config::load(&low, &Environment::default()).unwrap_err();
    assert!(problem.message.starts_with("cannot read `"), "{}", problem.message);
    let too_large = "#".repeat(2 << 20);
    let problem = load(Some(&too_large), &[], &[]).unwrap_err();
    assert!(problem.message.ends_with("has more than 1048576 bytes"), "{}", problem.message);
}

#[test]
fn others_are_reached_with_tls_only() {
    let plain: &[&str] = &[];
    let tls: &[&str] = &["--tls-cert", "c", "--tls-key", "k"];
    let proxy: &[&str] = &["--tls", "proxy", "--trusted-proxies", "10.0.0.0/8"];
    for (address, flags, fits) in [
        ("127.0.0.1:0", plain, true),
        ("127.9.9.9:80", plain, true),
        ("[::1]:80", plain, true),
        ("[::ffff:127.0.0.1]:80", plain, true),
        ("localhost:1", plain, true),
        ("0.0.0.0:80", plain, false),
        ("[::]:80", plain, false),
        ("192.168.0.1:80", plain, false),
        ("192.168.0.1:80", &["--trusted-proxies", "10.0.0.0/8"], false),
        ("0.0.0.0:80", tls, true),
        ("0.0.0.0:80", proxy, true),
        ("127.0.0.1:80", tls, true),
    ] {
        let config = load(None, &[], &[&["--listen", address], flags].concat()).unwrap();
        let checked = config.check_listen();
        assert_eq!(checked.is_ok(), fits, "{address} {flags:?}");
        if let Err(problem) = checked {
            assert_eq!(problem.kind, Kind::Address);
            let hint = problem.hint.unwrap();
            assert!(problem.message.contains("flag `--listen`") && hint.contains("127.0.0.1:80"));
            assert!(hint.contains("`tls.cert`") && hint.contains("`trusted_proxies`"), "{hint}");
        }
    }
    assert!(Path::new(&load(None, &[], &[]).unwrap().home.state()).ends_with("state"));
}

#[test]
fn settings_of_tls_fit_each_other() {
    let identity = "[identity]\nurl = 'https://a.example'\n";
    let certificates = format!("{identity}[identity.certificates]\nca = 'office'\n");
    let own = "tls.cert = 'c'\ntls.key = 'k'\n";
    for (file, expected) in [
        ("tls.cert = 'c'".to_owned(), "`tls.cert` is set and `tls.key` is not"),
        ("tls.key = 'k'".into(), "`tls.key` is set and `tls.cert` is not"),
        ("tls = 'proxy'".into(), "`tls = \"proxy\"` needs `trusted_proxies`"),
        ("tls.client_ca = 'a'".into(), "`tls.client_ca` needs `tls.cert` and `tls.key`"),
        (format!("{own}tls.client_ca = 'a'"), "`tls.client_ca` needs `[identity.certificates]`"),
        (format!("{own}tls.client_ca = 'a'\n{identity}"), "`tls.client_ca` needs `[identity.certificates]`"),
        (format!("{own}{certificates}"), "`[identity.certificates]` needs `tls.client_ca`"),
    ] {
        let problem = load(Some(&file), &[], &[]).unwrap().check_listen().unwrap_err();
        assert_eq!(problem.message, expected, "{file}");
        assert!(problem.hint.is_some(), "{file}");
    }
    let both = load(Some(own), &[], &["--tls", "proxy"]).unwrap().check_listen().unwrap_err();
    assert!(both.message.starts_with("`tls` says that a proxy speaks TLS"), "{both}");
    for file in [
        format!("trusted_proxies = ['127.0.0.1']\n{own}"),
        format!("{own}tls.client_ca = '/a'\n{certificates}"),
        "trusted_proxies = ['127.0.0.1']\ntls = 'proxy'".into(),
    ] {
        let config = load(Some(&file), &[], &[]).unwrap();
        config.check_listen().unwrap_or_else(|problem| panic!("{problem}: {file}"));
        let files = config.tls_files().map(|files| (files.certificate, files.client_authorities));
        let home = config.home.path();
        assert!(
            files.is_none_or(|(own, clients)| own == home.join("c") && clients.is_none_or(|ca| ca == Path::new("/a")))
        );
    }
}

/// Each profile needs a credential of its own before others are let in.
#[test]
fn others_are_not_reached_while_a_profile_asks_for_no_credential() {
    let folder = tempfile::tempdir().unwrap();
    let profile = |name: &str, keys: &str| {
        std::fs::create_dir_all(folder.path().join("profiles")).unwrap();
        let text = format!("name: {name}\n{keys}");
        std::fs::write(folder.path().join("profiles").join(format!("{name}.yaml")), text).unwrap();
    };
    let check = |address: &str, file: &str| {
        let config = load(Some(file), &[], &["--listen", address]).unwrap();
        config.check_profiles(&toolcrib_catalog::load(folder.path())).map_err(|problem| problem.to_string())
    };
    let outside = "0.0.0.0:8700";
    let refused = check(outside, "").unwrap_err();
    assert!(refused.contains("none is set for `default`") && refused.contains("profile key add default"), "{refused}");
    assert_eq!(check("127.0.0.1:8700", ""), Ok(()));
    assert_eq!(check(outside, "[identity]\nurl = 'https://a.example'\n"), Ok(()));
    profile("default", "keys: []\n");
    assert_eq!(check(outside, ""), Ok(()));
    profile("work", "");
    assert!(check(outside, "").unwrap_err().contains("none is set for `work`"));
}

/// A secret in each place of the file, as a value, as a key and where the text is broken: no message repeats it.
#[test]
fn no_message_repeats_a_secret() {
    let secret = ["sk", "marker", "0123456789abcdef"].join("-");
    let address = format!("https://me:{secret}@example.com/?token={secret}");
    let mut texts: Vec<String> = Vec::new();
    for key in KEYS {
        for value in [
            "'{}'",
            "['{}']",
            "['a', '{}', 3]",
            "{ {} = '{}' }",
            "{ a = ['{}'] }",
            "'Bearer {}'",
            "'KEY={}'",
            "'{}/{}'",
            "{}",
            "'{}",
            "\"{}\\z\"",
            "['{}'",
            "1{}",
            "'ADDRESS'",
            "['ADDRESS']",
        ] {
            texts.push(format!("{} = {value}\n", key.name));
        }
        texts.push(format!("[{}]\n{{}} = '{{}}'\n", key.name));
        texts.push(format!("{}.{{}} = '{{}}'\n", key.name));
        texts.push(format!("{0} = 'a'\n{0} = '{{}}'\n", key.name));
    }
    let broken = [
        "{}",
        "{} = 1",
        "'{}' = 1",
        "'KEY={}' = 1",
        "{}.a = 1\n{}.a = 2",
        "{} = 1\n{} = 2",
        "[{}]\n[{}]",
        "[[{}]]",
        "[{}",
        "= '{}'",
        "# {}\nx",
        "lsten = '{}'",
        "'{}",
        "\"{}",
        "a = {}",
        "{} '{}'",
    ];
    texts.extend(broken.map(|text| text.to_owned() + "\n"));
    let (mut tried, mut leaks) = (0, Vec::new());
    for text in texts {
        let text = text.replace("{}", &secret).replace("ADDRESS", &address);
        if let Err(problem) = load(Some(&text), &[], &[]) {
            let told = format!("{} {}", problem.message, problem.hint.as_deref().unwrap_or_default());
            if told.contains("marker") {
                leaks.push(format!("{text}: {told}"));
            }
            tried += 1;
        }
    }
    assert_eq!(leaks, Vec::<String>::new());
    assert!(tried > KEYS.len() * 10, "{tried}");
}

#[test]
fn a_file_that_cannot_be_opened_is_named_with_what_to_check() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::write(&home, "not a folder").unwrap();
    let low = SettingFlags { home: Some(home.clone()), ..SettingFlags::default() };
    let problem = Config::load(&low, &Environment::default()).unwrap_err();
    let expected = format!("cannot open `{}`: ", home.join("config.toml").display());
    assert!(problem.message.starts_with(&expected), "{}", problem.message);
    assert!(problem.hint.unwrap().contains("check its owner and permissions"));
}
