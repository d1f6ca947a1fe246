//! Policies in a real browser: who may call what, why, and what a changed file would change before it is written.

use std::fs;
use std::path::Path;

use toolcrib_testkit::{eventually_finds, fake_server};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const TEAM: &str = "// the team\n@id(\"no-add\")\nforbid (principal in Group::\"acme/interns\", action, resource == Tool::\"kit/add\");\n";
const WRITE: &str = "#outcome form button.primary";

#[tokio::test]
async fn who_may_do_what_is_seen_and_what_a_changed_policy_changes_before_it_is_written() {
    let kit = format!("name: kit\ncommand: {}\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::of_person(&[("servers/kit.yaml", kit.as_str()), ("policies/team.cedar", TEAM)]).await;
    let home = gateway.home().to_owned();
    let file = home.join("policies/team.cedar");
    let echo = async || run(&home, &["call", "kit/echo", "text=hello"], &[]).await;
    assert_eq!(echo().await.code, 0);
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.shows("/ui/tools", "kit/add").await;
            let listed = pages.shows("/ui/policies", "no-add").await;
            assert!(listed.contains("team.cedar"), "{listed}");
            // The table says by word who may call what; its filters stand in the address.
            pages.click("a[href='/ui/policies/who']").await;
            pages.reads("Group::\"acme/interns\" with role member").await;
            pages.go("/ui/policies/who?decision=hidden&who=interns").await;
            pages.reads("kit/add").await;
            let table = pages.text().await;
            assert!(table.contains("hidden") && table.contains("no-add") && !table.contains("kit/echo"), "{table}");
            pages.click("td a[href^='/ui/policies/explain?as=user%3Aacme%2Fanyone']").await;
            pages.reads("team.cedar:2").await;
            let why = pages.text().await;
            assert!(why.contains("The request") && why.contains("hidden"), "{why}");
            // What is no policy is not written, and says where it is wrong.
            pages.go("/ui/policies/-/edit?name=team.cedar").await;
            pages.types("[name='text']", "// the team\nforbid (principal, actio").await;
            pages.reads("Nothing can be written").await;
            pages.reads("team.cedar:2").await;
            assert!(pages.driver.find(thirtyfour::By::Css(WRITE)).await.is_err(), "there is nothing to write");
            // A change shows its lines, who loses what, and what of the record it would have refused.
            let stricter =
                "@id(\"no-echo\")\nforbid (principal, action == Action::\"call\", resource == Tool::\"kit/echo\");\n";
            pages.types("[name='text']", &format!("{TEAM}{stricter}")).await;
            pages.types("[name='since']", "2020-01-01").await;
            pages.reads("calls played").await;
            pages.reads("no-echo").await;
            let text = pages.text().await;
            for part in ["losses", "loses", "role member in profile default", "kit/echo", "event "] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), TEAM, "nothing is written before");
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            pages.reads("no-echo").await;
            assert_ne!(echo().await.code, 0, "it counts at once");
            pages.click(".notice form[action='/ui/do/core_write_undo'] button").await;
            eventually_finds("the first text", async || {
                let text = fs::read_to_string(&file).unwrap();
                if text == TEAM { Ok(()) } else { Err(text) }
            })
            .await;
            pages.reads("Done.").await;
            assert_eq!(echo().await.code, 0);
            assert_eq!(pages.complaints().await, [""; 0]);
            // A file that was edited meanwhile stays as it is, and both changes are shown.
            pages.go("/ui/policies/-/edit?name=team.cedar").await;
            pages.types("[name='text']", &format!("{TEAM}{stricter}")).await;
            pages.reads("no-echo").await;
            pages.until(WRITE).await;
            fs::write(&file, format!("{TEAM}// by hand\n")).unwrap();
            pages.click(WRITE).await;
            pages.reads("has changed since it was read").await;
            let text = pages.text().await;
            for part in
                ["Changed in the file since you opened it", "+ // by hand", "Changed by you", "@id(\"no-echo\")"]
            {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{TEAM}// by hand\n"));
            let typed = pages.until("[name='text']").await.prop("value").await.unwrap();
            assert_eq!(typed.as_deref(), Some(&*format!("{TEAM}{stricter}")), "what was typed stays");
            // What is shown next is the difference to the file as it is now.
            pages.click("#edit > button").await;
            pages.reads("- // by hand").await;
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{TEAM}{stricter}"));
            // It went away while it was edited: what was typed makes it again.
            pages.go("/ui/policies/-/edit?name=team.cedar").await;
            pages.types("[name='text']", TEAM).await;
            pages.until(WRITE).await;
            fs::remove_file(&file).unwrap();
            pages.click(WRITE).await;
            pages.reads("The file is gone").await;
            pages.click("#edit > button").await;
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), TEAM);
            removed(&pages, &file).await;
            pages.complaints().await;
        })
        .await;
}

/// A file is removed by the lines that were shown, unless it was changed since, and comes back byte for byte.
async fn removed(pages: &Pages, file: &Path) {
    pages.go("/ui/policies/-/edit?name=team.cedar").await;
    pages.click("main .head form button.danger").await;
    pages.reads("What would change").await;
    pages.reads("- forbid (principal in Group").await;
    assert!(file.exists(), "nothing is removed before");
    fs::write(file, format!("{TEAM}// by hand\n")).unwrap();
    pages.click("section form button.danger").await;
    pages.reads("Changed in the file since you opened it").await;
    assert!(pages.text().await.contains("+ // by hand"), "{}", pages.text().await);
    assert!(file.exists());
    pages.click("form[action='/ui/do/core_policy_file_delete'] > button.danger").await;
    pages.reads("- // by hand").await;
    pages.click("section form button.danger").await;
    pages.reads("Done. Remove a file of policies").await;
    assert!(!file.exists());
    pages.click(".notice form[action='/ui/do/core_write_undo'] button").await;
    pages.reads("Done. Undo").await;
    assert_eq!(fs::read_to_string(file).unwrap(), format!("{TEAM}// by hand\n"));
}
