//! The machines that are booted, and the checks in each.

use std::path::PathBuf;

use super::guest::scenarios;

/// The newest driver comes first. Scenarios run on it, and the older drivers are loaded after them.
pub(super) const DRIVERS: [&str; 4] = ["2.10.1-pre", "2.9.0", "2.7.0", "2.5.0"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(super) board: &'static str,
    pub(super) drivers: Vec<&'static str>,
    pub(super) scenarios: Vec<&'static str>,
}

#[derive(Debug, Default)]
pub(super) struct Choice {
    board: Option<String>,
    driver: Option<String>,
    scenario: Option<String>,
    pub(super) program: Option<PathBuf>,
}

/// Returns the machines of the stage, the longest first.
pub(crate) fn all() -> Vec<Boot> {
    let every = || scenarios::names().collect::<Vec<_>>();
    let newest = || vec![DRIVERS[0]];
    vec![
        Boot { board: "n150", drivers: DRIVERS.to_vec(), scenarios: every() },
        Boot { board: "p150", drivers: DRIVERS.to_vec(), scenarios: every() },
        Boot { board: "t3k", drivers: newest(), scenarios: every() },
        Boot { board: "n300", drivers: newest(), scenarios: every() },
    ]
}

impl Boot {
    pub(super) fn words(&self) -> [String; 3] {
        [self.board.to_owned(), self.drivers.join(","), self.scenarios.join(",")]
    }
}

impl Choice {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut choice = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--board" => choice.board = Some(value()?),
                "--driver" => choice.driver = Some(value()?),
                "--program" => choice.program = Some(value()?.into()),
                flag if flag.starts_with('-') => return Err(format!("unexpected argument {flag}")),
                name if choice.scenario.is_none() => choice.scenario = Some(name.to_owned()),
                more => return Err(format!("unexpected argument {more}")),
            }
        }
        Ok(choice)
    }

    /// Returns the selected machines of the stage. A selected board, driver or scenario is also run if the stage does not include it.
    pub(super) fn boots(&self) -> Result<Vec<Boot>, String> {
        let mut boots = all();
        if let Some(board) = &self.board {
            boots.retain(|boot| boot.board == board);
        }
        if boots.is_empty() {
            return Err("no such board; there are: n150, n300, t3k, p150".to_owned());
        }
        if let Some(driver) = &self.driver {
            let known = DRIVERS.iter().find(|known| *known == driver);
            let known = known.ok_or_else(|| format!("no driver {driver}; there are: {}", DRIVERS.join(", ")))?;
            boots.iter_mut().for_each(|boot| boot.drivers = vec![*known]);
        }
        if let Some(scenario) = &self.scenario {
            let known = scenarios::names().find(|known| known == scenario);
            let known =
                known.ok_or_else(|| format!("no scenario {scenario}; there are: {}", scenarios::names().collect::<Vec<_>>().join(", ")))?;
            boots.iter_mut().for_each(|boot| boot.scenarios = vec![known]);
        }
        Ok(boots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(arguments: &str) -> Result<Vec<Boot>, String> {
        Choice::parse(&arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>())?.boots()
    }

    #[test]
    fn the_gate_has_each_board_on_the_newest_driver_and_two_on_all() {
        let all = boots("").unwrap();
        let mut boards: Vec<&str> = all.iter().map(|boot| boot.board).collect();
        boards.sort_unstable();
        assert_eq!(boards, ["n150", "n300", "p150", "t3k"]);
        assert!(all.iter().all(|boot| boot.drivers[0] == DRIVERS[0] && boot.scenarios.contains(&"values")));
        assert!(all.iter().filter(|boot| boot.drivers == DRIVERS).map(|boot| boot.board).eq(["n150", "p150"]));
    }

    #[test]
    fn a_part_is_chosen_by_hand() {
        let one = Boot { board: "t3k", drivers: vec!["2.7.0"], scenarios: vec!["reset"] };
        assert_eq!(boots("--board t3k --driver 2.7.0 reset"), Ok(vec![one]));
        assert!(boots("--board n151").unwrap_err().starts_with("no such board"));
        assert!(boots("--driver 1.0").unwrap_err().starts_with("no driver 1.0"));
        assert!(boots("rest").unwrap_err().starts_with("no scenario rest"));
        assert_eq!(boots("--board"), Err("--board needs a value".to_owned()));
    }
}
