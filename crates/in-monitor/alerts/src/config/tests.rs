use super::*;

fn read(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    config.read(text).map(|()| config).map_err(|error| error.to_string())
}

fn rule<'a>(config: &'a Config, name: &str) -> &'a Rule {
    config.rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule {name}"))
}

#[test]
fn rules_are_added_changed_and_turned_off() {
    let config = read(
        r#"
        view = "Main"
        [[alerts.rule]]
        name = "too-warm"
        when = "temperature >= 85"
        for = "1m"
        clear = "temperature < 80"
        severity = "critical"
        [[alerts.rule]]
        name = "dram-full"
        for = "5m"
        [[alerts.rule]]
        name = "largest-free"
        when = "memory.kinds.dram.largest_free_per_bank < 64M"
        [[alerts.rule]]
        name = "growth"
        enabled = false
        "#,
    )
    .expect("a configuration");
    let warm = rule(&config, "too-warm");
    assert_eq!((warm.for_, warm.severity, warm.clear_for), (Duration::from_secs(60), Severity::Critical, CLEAR_FOR_DEFAULT));
    assert_eq!(warm.summary, "temperature >= 85 (temperature {temperature})");
    let full = rule(&config, "dram-full");
    assert!(full.for_ == Duration::from_secs(300) && full.clear.is_some() && full.is_builtin);
    assert_eq!(rule(&config, "largest-free").clear, None, "what ended another condition is not kept");
    assert!(config.rules.iter().all(|rule| rule.name != "growth"));
    assert_eq!(config.rules.len(), builtin().len());
    assert_eq!(read("[alerts]\nbuiltin = false").expect("none").rules, []);
    assert_eq!(read("theme = \"dark\""), Ok(Config::default()), "a file without the table");
}

#[test]
fn receivers_are_read() {
    let config = read(
        r#"
        [[alerts.command]]
        argv = ["/usr/bin/logger", "-t", "ttmon"]
        [[alerts.webhook]]
        name = "chat"
        url_file = "/etc/ttmon/chat.url"
        severity = "critical"
        [[alerts.alertmanager]]
        url = "http://127.0.0.1:9093"
        resend = "30s"
        "#,
    )
    .expect("a configuration");
    let names: Vec<&str> = config.receivers.iter().map(|receiver| receiver.name.as_str()).collect();
    assert_eq!(names, ["alertmanager-1", "command-1", "chat"]);
    let Delivery::Command { argv, timeout } = &config.receivers[1].how else { panic!("{:?}", config.receivers[1]) };
    assert_eq!((argv.len(), *timeout), (3, COMMAND_TIMEOUT_DEFAULT));
    assert_eq!(config.receivers[2].severity, Severity::Critical);
}

#[test]
fn errors_name_the_wrong_key() {
    let rule = |lines: &str| format!("[[alerts.rule]]\nname = \"x\"\n{lines}");
    for (text, why) in [
        ("[alerts]\nrules = 1".to_owned(), "alerts.rules: unknown key"),
        ("alerts = 1".to_owned(), "alerts is a table"),
        ("[alerts.rule]\nname = \"x\"".to_owned(), "alerts.rule is a list of tables"),
        ("[alerts]\nbuiltin = 1".to_owned(), "builtin takes true or false"),
        (rule(""), "alerts.rule x: when is missing"),
        (rule("when = \"temprature > 1\""), "alerts.rule x: when: no field temprature"),
        (rule("when = \"temperature > 1\"\nfor = \"5\""), "for takes a duration"),
        (rule("when = \"temperature > 1\"\nclear_for = \"1s\""), "clear_for takes a duration of 10s to 7d"),
        (rule("when = \"temperature > 1\"\nseverity = \"bad\""), "severity takes info, warning or critical"),
        (rule("when = \"temperature > 1\"\nfrom = 1"), "unknown key from"),
        ("[[alerts.rule]]\nname = \"X\"".to_owned(), "name takes lower-case letters"),
        ("[[alerts.command]]\nargv = [\"logger\"]".to_owned(), "absolute path of a program"),
        ("[[alerts.command]]\nargv = \"/bin/logger x\"".to_owned(), "argv takes a list"),
        ("[[alerts.command]]\nargv = []".to_owned(), "argv takes a list"),
        ("[[alerts.command]]\nargv = [\"/x\"]\ntimeout = \"1h\"".to_owned(), "timeout takes a duration of 1s to 1m"),
        ("[[alerts.webhook]]\nurl = \"http://a\"\nurl_file = \"/b\"".to_owned(), "give either url or url_file"),
        ("[[alerts.webhook]]\nurl_file = \"b\"".to_owned(), "url_file takes an absolute path"),
        ("[[alerts.webhook]]\nname = \"a\"\nurl = \"x\"\n[[alerts.webhook]]\nname = \"a\"\nurl = \"x\"".to_owned(), "another receiver"),
        ("= 1".to_owned(), "TOML"),
    ] {
        let error = read(&text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(error.contains(why), "{text}: {error}");
    }
}
