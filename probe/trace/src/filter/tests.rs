use layouts::{CreateMkeyIn, Opcode, SetDriverVersionIn};
use probe::{Point, Site, Value};
use proptest::prelude::*;

use super::Filter;

fn matches(filter: &str, site: &Site<'_>) -> bool {
    filter.parse::<Filter>().unwrap().matches(site)
}

#[test]
fn expressions_say_what_they_seem_to() {
    let mut bytes = [0; 0x110];
    let mut input = CreateMkeyIn(&mut bytes[..]);
    input.set_opcode(Opcode::CREATE_MKEY.0);
    input.memory_key_mkey_entry_mut().set_pd(0x45);
    input.memory_key_mkey_entry_mut().set_access_mode_1_0(1);
    let command = Site {
        point: Point::Command,
        layout: Some(&CreateMkeyIn::INFO),
        bytes: &bytes,
        values: &[("slot", Value::Number(3))],
    };
    for (filter, expected) in [
        ("command.opcode=CREATE_MKEY", true),
        ("reply.opcode=CREATE_MKEY", false),
        ("opcode = 0x200", true),
        ("opcode == create_mkey", true),
        ("opcode=DESTROY_MKEY", false),
        ("opcode~MKEY", true),
        ("mkc.pd=0x45", true),
        ("mkc.pd=69 and slot=3", true),
        ("mkc.pd=69 and slot=4", false),
        ("mkc.access_mode=MTT", true),
        ("slot<3", false),
        ("slot<=3", true),
        ("slot > 2 and slot >= 3", true),
        ("slot!=3", false),
        ("slot=3 or slot=4 and slot=5", true),
        ("(slot=3 or slot=4) and slot=5", false),
        ("not slot=4", true),
        ("not (point=command)", false),
        ("point=command", true),
        ("structure=create_mkey_in", true),
        ("mkc.pd", true),
        ("mkc.free", false),
        ("refused", false),
        ("not refused", true),
        ("nothing=1", false),
        ("nothing!=1", true),
    ] {
        assert_eq!(matches(filter, &command), expected, "{filter}");
    }
}

#[test]
fn words_and_text_are_compared_too() {
    let refused = Site {
        point: Point::Translation,
        layout: None,
        bytes: &[],
        values: &[("key", Value::Number(0x1700)), ("refused", Value::Word("wrong_variant"))],
    };
    assert!(matches("point=translation and refused", &refused));
    assert!(matches("refused=wrong_variant", &refused));
    assert!(matches("refused ~ variant", &refused));
    assert!(!matches("refused=free_key", &refused));

    let mut bytes = [0; 0x50];
    bytes[0x10..0x20].copy_from_slice(b"Linux,mlx5_core,");
    let version = Site {
        point: Point::Command,
        layout: Some(&SetDriverVersionIn::INFO),
        bytes: &bytes,
        values: &[],
    };
    assert!(matches("driver_version ~ 'mlx5_core'", &version));
    assert!(matches("driver_version = \"Linux,mlx5_core,\"", &version));
    assert!(!matches("driver_version ~ windows", &version));
}

#[test]
fn what_is_no_expression_is_refused_where_it_goes_wrong() {
    for (text, rest) in [
        ("", ""),
        ("slot=", "="),
        ("slot=3 or", " or"),
        ("slot=3 slot=4", " slot=4"),
        ("(slot=3", "(slot=3"),
        ("slot=3)", ")"),
        ("and", ""),
    ] {
        let error = text.parse::<Filter>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("\"{text}\" is no filter")), "{error}");
        assert_eq!(error.rest.trim(), rest.trim(), "{text}");
    }
    let deep = "(".repeat(100_000);
    assert!(deep.parse::<Filter>().is_err());
    assert!("not ".repeat(100_000).parse::<Filter>().is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9=<>!~() .\"]{0,40}") {
        if let Ok(filter) = text.parse::<Filter>() {
            prop_assert_eq!(filter.to_string(), text);
        }
    }
}
