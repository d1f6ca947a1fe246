//! What documents say is missing. A test here fails when the thing arrives: then the sentence that names it goes too.

use crate::toolcrib::run;

#[tokio::test]
async fn there_is_no_user_interface() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["ui"], &[]).await;
    assert_eq!(ran.code, 64, "no command `ui`: {}", ran.stderr);
}
