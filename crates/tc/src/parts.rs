//! Parts of filters and actions in words, for a caller that has them in another form, such as
//! messages of rtnetlink.

use txweir_core::classify::action::police::Average;
use txweir_core::classify::action::{Action, Pedit};

use crate::action;

/// Returns the words that make a pedit again; `None` if it changes bits that no words name.
#[must_use]
pub fn pedit(pedit: &Pedit) -> Option<Vec<String>> {
    action::pedit_words(pedit).map(|words| words.split(' ').map(String::from).collect())
}

/// Returns the words before a filter's kind that make its new actions measure such an average.
#[must_use]
pub fn estimator(average: Average) -> Vec<String> {
    action::estimator_of(average).split_whitespace().map(String::from).collect()
}

/// True if Linux would offer an action to hardware, which a listing of actions says.
#[must_use]
pub fn is_offloaded(action: &Action) -> bool {
    action::offloads(action)
}
