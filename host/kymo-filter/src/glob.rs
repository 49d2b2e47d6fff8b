//! Globs: `*` is any text, `?` any one character. Everything else is itself.

/// Whether `text` matches `glob`. At most length of `glob` times length of `text` steps; nothing is allocated.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (mut g, mut t) = (glob.chars(), text.chars());
    // Where to go on when what follows the last `*` does not fit: behind the `*`, and how far it reached.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (mut g_next, mut t_next) = (g.clone(), t.clone());
        match (g_next.next(), t_next.next()) {
            (Some('*'), _) => {
                retry = Some((g_next.clone(), t.clone()));
                g = g_next;
            }
            (None, None) => return true,
            (Some(c), Some(d)) if c == '?' || c == d => (g, t) = (g_next, t_next),
            _ => {
                let Some((after, reached)) = &mut retry else { return false };
                if reached.next().is_none() {
                    return false;
                }
                (g, t) = (after.clone(), reached.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, text, expect) in [
            ("motor:*", "motor:step", true),
            ("motor:*", "motors:step", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("?", "ü", true),
            ("*:*p", "motor:step:stop", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("**", "x", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(glob_matches(glob, text), expect, "{glob} {text}");
        }
    }
}
