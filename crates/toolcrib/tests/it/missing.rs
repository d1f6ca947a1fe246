//! What documents say is missing. A test here fails when the thing arrives: then the sentence that names it goes too.

use crate::toolcrib::run;

#[tokio::test]
async fn there_is_no_user_interface() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["ui"], &[]).await;
    assert_eq!(ran.code, 64, "no command `ui`: {}", ran.stderr);
}

#[tokio::test]
async fn only_this_machine_is_listened_to() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["serve", "--listen", "0.0.0.0:0"], &[]).await;
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stderr.contains("refusing to listen on `0.0.0.0:0`"), "{}", ran.stderr);
}
