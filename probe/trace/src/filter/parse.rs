//! The grammar.

use probe::Point;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, delimited, opt, preceded, separated, terminated};
use winnow::error::ContextError;
use winnow::prelude::*;
use winnow::token::take_while;

use super::{Expression, Relation, Test};

type Parsed<T> = winnow::Result<T, ContextError>;

/// Deepest nesting of parentheses and `not`: expressions come over a socket.
const DEPTH: usize = 32;

/// Reads an expression. The error is what could not be read.
pub(super) fn expression(text: &str) -> Result<Expression, String> {
    let mut rest = text;
    match terminated(|rest: &mut &str| any(rest, DEPTH), multispace0).parse_next(&mut rest) {
        Ok(expression) if rest.is_empty() => Ok(expression),
        _ => Err(rest.into()),
    }
}

/// A number, decimal or with 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn any(rest: &mut &str, depth: usize) -> Parsed<Expression> {
    let parts: Vec<_> =
        separated(1.., |rest: &mut &str| all(rest, depth), word("or")).parse_next(rest)?;
    Ok(one_or(parts, Expression::Any))
}

fn all(rest: &mut &str, depth: usize) -> Parsed<Expression> {
    let parts: Vec<_> =
        separated(1.., |rest: &mut &str| part(rest, depth), word("and")).parse_next(rest)?;
    Ok(one_or(parts, Expression::All))
}

fn one_or(
    mut parts: Vec<Expression>,
    many: impl FnOnce(Vec<Expression>) -> Expression,
) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn part(rest: &mut &str, depth: usize) -> Parsed<Expression> {
    let Some(depth) = depth.checked_sub(1) else { return Err(ContextError::new()) };
    let negated = preceded(word("not"), |rest: &mut &str| part(rest, depth))
        .map(|part| Expression::Not(Box::new(part)));
    let group = delimited(symbol("("), |rest: &mut &str| any(rest, depth), symbol(")"));
    alt((negated, group, test)).parse_next(rest)
}

fn test(rest: &mut &str) -> Parsed<Expression> {
    let path = preceded(multispace0, take_while(1.., is_path)).parse_next(rest)?;
    if ["and", "or", "not"].contains(&path) {
        return Err(ContextError::new());
    }
    let relation = opt((relation, value)).parse_next(rest)?;
    let (point, path) =
        match path.split_once('.').map(|(head, tail)| (Point::from_name(head), tail)) {
            Some((Some(point), tail)) => (Some(point), tail),
            _ => (None, path),
        };
    Ok(Expression::Test(Test { point, path: path.into(), relation }))
}

fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.[]".contains(c)
}

fn relation(rest: &mut &str) -> Parsed<Relation> {
    alt((
        symbol("!=").value(Relation::NotEqual),
        symbol("<=").value(Relation::LessOrEqual),
        symbol(">=").value(Relation::GreaterOrEqual),
        symbol("==").value(Relation::Equal),
        symbol("=").value(Relation::Equal),
        symbol("<").value(Relation::Less),
        symbol(">").value(Relation::Greater),
        symbol("~").value(Relation::Contains),
    ))
    .parse_next(rest)
}

fn value(rest: &mut &str) -> Parsed<String> {
    let bare = take_while(1.., |c: char| !c.is_whitespace() && !"()\"'".contains(c));
    let quoted = |quote: &'static str| {
        let inside = take_while(0.., move |c: char| !quote.contains(c));
        delimited(quote, inside, quote)
    };
    let value = alt((quoted("\""), quoted("'"), bare));
    preceded(multispace0, value).map(str::to_owned).parse_next(rest)
}

/// A word of its own.
fn word<'a>(text: &'static str) -> impl Parser<&'a str, (), ContextError> {
    move |rest: &mut &'a str| {
        let found = preceded(multispace0, take_while(1.., is_path)).parse_next(rest)?;
        if found == text { Ok(()) } else { Err(ContextError::new()) }
    }
}

fn symbol<'a>(text: &'static str) -> impl Parser<&'a str, &'a str, ContextError> {
    preceded(multispace0, text)
}
