//! The table of objects: each rule by itself, and all of them against a plain map.

use std::collections::BTreeMap;

use dma::{RemoveError, Table, TableFull};
use proptest::prelude::*;

#[test]
fn ids_begin_where_they_are_told_to_and_rest_before_they_come_again() {
    let mut table = Table::new(5, 3);
    assert_eq!(table.insert('a'), Ok(5));
    assert_eq!(table.remove(5), Ok('a'));
    assert_eq!(table.insert('b'), Ok(6));
    assert_eq!(table.insert('c'), Ok(7));
    assert_eq!(table.insert('d'), Ok(5));
    assert_eq!(table.insert('e'), Err(TableFull { limit: 3 }));
    table.remove(7).unwrap();
    table.remove(6).unwrap();
    // Of those that rest, the one that has rested longest.
    assert_eq!(table.insert('f'), Ok(7));
    assert_eq!(table.insert('g'), Ok(6));
}

#[test]
fn what_is_referred_to_stays() {
    let mut table = Table::new(1, 10);
    let id = table.insert(()).unwrap();
    assert!(table.hold(id) && table.hold(id));
    assert_eq!(table.remove(id), Err(RemoveError::Busy { id, users: 2 }));
    table.release(id);
    assert_eq!(table.remove(id), Err(RemoveError::Busy { id, users: 1 }));
    table.release(id);
    assert_eq!(table.remove(id), Ok(()));
    assert_eq!(table.remove(id), Err(RemoveError::Unknown(id)));
}

#[test]
fn ids_that_were_never_given() {
    let mut table = Table::new(5, 10);
    table.insert(()).unwrap();
    for id in [0, 1, 4, 6, 14, 15, u32::MAX] {
        assert_eq!(table.get(id), None);
        assert_eq!(table.get_mut(id), None);
        assert!(!table.hold(id));
        assert_eq!(table.users(id), 0);
        table.release(id);
        assert_eq!(table.remove(id), Err(RemoveError::Unknown(id)));
    }
    assert_eq!(table.len(), 1);
}

#[test]
fn a_table_for_nothing() {
    let mut table = Table::new(1, 0);
    assert_eq!(table.insert(()), Err(TableFull { limit: 0 }));
    assert!(table.is_empty());
}

#[test]
fn clear_forgets_references_too() {
    let mut table = Table::new(1, 10);
    let id = table.insert(1).unwrap();
    assert!(table.hold(id));
    table.clear();
    assert_eq!((table.len(), table.get(id), table.users(id)), (0, None, 0));
    assert_eq!(table.insert(2), Ok(id));
    assert_eq!(table.remove(id), Ok(2));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert,
    Remove(u32),
    Hold(u32),
    Release(u32),
    Change(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..16u32;
    prop_oneof![
        3 => Just(Step::Insert),
        2 => id.clone().prop_map(Step::Remove),
        1 => id.clone().prop_map(Step::Hold),
        1 => id.clone().prop_map(Step::Release),
        1 => id.prop_map(Step::Change),
    ]
}

proptest! {
    #[test]
    fn as_a_map(first in 0..4u32, limit in 0..10u32, steps in prop::collection::vec(step(), 0..200)) {
        let mut table = Table::new(first, limit);
        let mut map: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert => match table.insert(number) {
                    Ok(id) => {
                        prop_assert!((first..first + limit).contains(&id));
                        prop_assert_eq!(map.insert(id, (number, 0)), None);
                    }
                    Err(TableFull { limit: said }) => {
                        prop_assert_eq!((said, map.len()), (limit, limit as usize));
                    }
                },
                Step::Remove(id) => match (table.remove(id), map.get(&id)) {
                    (Ok(object), Some(&(number, 0))) => {
                        prop_assert_eq!(object, number);
                        map.remove(&id);
                    }
                    (Err(RemoveError::Unknown(said)), None) => prop_assert_eq!(said, id),
                    (Err(RemoveError::Busy { id: said, users }), Some(&(_, held))) => {
                        prop_assert_eq!((said, users), (id, held));
                        prop_assert_ne!(held, 0);
                    }
                    other => prop_assert!(false, "remove {id}: {other:?}"),
                },
                Step::Hold(id) => {
                    prop_assert_eq!(table.hold(id), map.contains_key(&id));
                    if let Some((_, users)) = map.get_mut(&id) {
                        *users += 1;
                    }
                }
                // More releases than holds are the caller's mistake.
                Step::Release(id) => {
                    if let Some((_, users)) = map.get_mut(&id).filter(|(_, users)| *users > 0) {
                        *users -= 1;
                        table.release(id);
                    }
                }
                Step::Change(id) => {
                    let changed = table.get_mut(id).map(|object| *object += 1000);
                    let expected = map.get_mut(&id).map(|(object, _)| *object += 1000);
                    prop_assert_eq!(changed, expected);
                }
            }
            for id in 0..20 {
                prop_assert_eq!(table.get(id), map.get(&id).map(|(object, _)| object));
                prop_assert_eq!(table.users(id), map.get(&id).map_or(0, |&(_, users)| users));
            }
            prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
            let all: Vec<_> = map.iter().map(|(&id, &(object, _))| (id, object)).collect();
            prop_assert_eq!(table.iter().map(|(id, &o)| (id, o)).collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(table.iter_mut().map(|(id, o)| (id, *o)).collect::<Vec<_>>(), all);
        }
    }
}
