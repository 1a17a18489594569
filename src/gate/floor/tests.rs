use super::*;
use crate::gate::Classes;

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    sql: String,
    needs: Classes,
    statements: usize,
    stop: String,
    #[serde(default)]
    invalid: bool,
}

#[test]
fn every_case_has_its_classes_and_count() {
    let cases = include_str!("../../../tests/cases/gate.jsonl");
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        if case.invalid {
            continue;
        }
        match read(case.sql.as_bytes(), Encoding::Utf8, &Caps::default()) {
            Err(error) => wrong.push(format!("{}: {error}", case.id)),
            Ok(facts) => {
                let admin = case.needs.has(crate::gate::Class::Admin);
                let fits = if admin {
                    facts.classes.has(crate::gate::Class::Admin)
                } else if case.stop == "server" {
                    case.needs.within(facts.classes)
                } else {
                    facts.classes == case.needs
                };
                if !fits || facts.statements != case.statements {
                    wrong.push(format!(
                        "{}: wanted {} in {}, found {} in {}",
                        case.id, case.needs, case.statements, facts.classes, facts.statements
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
