//! The schemas of the arguments. Where a value of another type has a wording that clients know, the schema leaves the
//! type to the function, which says it better.

/// One tool of a lifecycle.
macro_rules! tool {
    ($more:literal) => {
        concat!(
            r#"{"properties":{"tool":{"type":"string","description":"The name of a tool"},"args":{"type":"object","description":"Its arguments; strings are templates"},"condition":{"type":"string","description":"A template; the tool is called only if it renders to true"}"#,
            $more,
            "}}"
        )
    };
    () => {
        tool!(r#","outputs":{"type":"object","description":"Parts of the result to keep: a name for each JSON path","additionalProperties":{"type":"string"}}"#)
    };
}

/// A service class, by its members beside the name.
macro_rules! class {
    ($required:literal) => {
        class!($required, "")
    };
    ($required:literal, $more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"The name of the class"},"description":{"type":"string","description":"What its services are"},"templates":{"type":"string","enum":["go","jinja"],"description":"The language of its templates: go without it"},"args":{"type":"object","description":"The arguments of its services","additionalProperties":{"type":"object","properties":{"type":{"type":"string","enum":["string","integer","boolean","number","object","array"]},"required":{"type":"boolean"},"default":{"description":"The default value"},"description":{"type":"string"},"enum":{"type":"array","description":"The only values"},"minimum":{"type":"number"},"maximum":{"type":"number"},"minLength":{"type":"integer"},"maxLength":{"type":"integer"},"pattern":{"type":"string","description":"What its texts must match"}},"required":["type"],"additionalProperties":false}},"serviceConfig":{"description":"What its services do","properties":{"serviceType":{"type":"string","description":"What people call this kind of service"},"defaultName":{"type":"string","description":"A template of names"},"dependencies":{"type":"array","items":{"type":"string"},"description":"Service classes, services and servers that must run first"},"outputs":{"type":"object","description":"Values that are made when a service has started, by templates"},"healthCheck":{"type":"object","properties":{"enabled":{"type":"boolean"},"interval":{"type":"string","description":"How often, such as 30s"},"failureThreshold":{"type":"integer","description":"After how many failures in a row a service is unhealthy"},"successThreshold":{"type":"integer","description":"After how many successes in a row it is healthy again"}}},"timeout":{"type":"object","properties":{"create":{"type":"string","description":"How long starting may take, such as 1m"},"delete":{"type":"string","description":"How long stopping may take"},"healthCheck":{"type":"string","description":"How long a check may take"}}},"lifecycleTools":{"description":"Its tools; start and stop are required","properties":{"start":"#,
            tool!(),
            r#","stop":"#,
            tool!(),
            r#","restart":"#,
            tool!(),
            r#","status":"#,
            tool!(),
            r#","healthCheck":"#,
            tool!(
                r#","expect":{"type":"object","properties":{"success":{"type":"boolean"},"json_path":{"type":"object"}}},"expect_not":{"type":"object","properties":{"success":{"type":"boolean"},"json_path":{"type":"object"}}}"#
            ),
            r#"}}}},"yaml":{"type":"string","description":"The text of the file, in place of everything beside `name`"}"#,
            $more,
            "},",
            $required,
            r#","additionalProperties":false}"#
        )
    };
}

pub(super) const NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"The name"}},"required":["name"],"additionalProperties":false}"#;

pub(super) const SAID: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"state":{"type":"string"},"health":{"type":"string"}},"required":["name","message"]}"#;

pub(super) const CREATE: &str = r#"{"type":"object","properties":{"serviceClassName":{"type":"string","description":"The service class"},"name":{"type":"string","description":"The name of the service"},"args":{"type":"object","description":"Its arguments, as the class defines them"},"description":{"type":"string","description":"For people"},"persist":{"type":"boolean","description":"Whether it is saved to a file and survives a restart of the gateway"},"autoStart":{"type":"boolean","description":"Whether it is started with the gateway; it is always started when created. Without persist it is forgotten by then, and this changes nothing"}},"required":["serviceClassName","name"],"additionalProperties":false}"#;

pub(super) const VALIDATE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"serviceClassName":{"type":"string","description":"The service class"},"args":{"type":"object","description":"Its arguments"},"persist":{"type":"boolean"},"autoStart":{"type":"boolean"},"description":{"type":"string"},"serviceClass":{"type":"object","description":"The definition of its class; used only if no class of that name exists"}},"required":["name","serviceClassName"],"additionalProperties":false}"#;

pub(super) const CREATE_CLASS: &str = class!(r#""required":["name"]"#);
pub(super) const UPDATE_CLASS: &str = class!(
    r#""required":["name"]"#,
    r#","revision":{"type":"string","description":"Only if the file still has this revision"}"#
);

/// What is said of a definition that is only checked. Problems of `yaml` have their places.
pub(super) const CHECKED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"valid":{"type":"boolean","description":"Said of `yaml`"},"problems":{"type":"array","items":{"type":"object","properties":{"message":{"type":"string"},"field":{"type":"string"},"line":{"type":"integer"},"column":{"type":"integer"},"hint":{"type":["string","null"]}},"required":["message","field"]},"description":"Said of `yaml`"}},"required":["name","message"]}"#;
