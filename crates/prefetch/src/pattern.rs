//! Which arguments a profile is for.

/// A pattern's words: `"--headless --convert-to * **"` has four.
#[must_use]
pub fn words(pattern: &str) -> Vec<String> {
    pattern.split_whitespace().map(str::to_owned).collect()
}

/// Whether the arguments are those of the pattern: `*` in a word stands for any characters, and the word `**` for any
/// number of arguments.
#[must_use]
pub fn matches(pattern: &[String], arguments: &[String]) -> bool {
    let items: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let words: Vec<&str> = pattern.iter().map(String::as_str).collect();
    glob(
        &words,
        &items,
        |word| *word == "**",
        |word, item| {
            let letters: Vec<char> = word.chars().collect();
            let text: Vec<char> = item.chars().collect();
            glob(&letters, &text, |letter| *letter == '*', |a, b| a == b)
        },
    )
}

/// Whether `text` is what `pattern` says, where each wild item stands for any number of items. Takes time in proportion
/// to the product of the lengths, whatever the pattern.
fn glob<T>(pattern: &[T], text: &[T], wild: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at).is_some_and(&wild) {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at).is_some_and(|item| same(item, &text[from])) {
            at += 1;
            from += 1;
        } else if let Some((star_at, star_from)) = star {
            star = Some((star_at, star_from + 1));
            (at, from) = (star_at + 1, star_from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(wild)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_characters_and_arguments() {
        let fits = |pattern: &str, arguments: &str| matches(&words(pattern), &words(arguments));
        assert!(fits("", "") && fits("**", "") && fits("**", "a b c") && fits("a ** c", "a c"));
        assert!(fits("--out=* x", "--out=/tmp/y x") && fits("*", "anything") && fits("** z", "a z b z"));
        assert!(
            !fits("", "a")
                && !fits("*", "")
                && !fits("*", "a b")
                && !fits("a ** c", "a b")
                && !fits("b*", "a")
        );
    }
}
