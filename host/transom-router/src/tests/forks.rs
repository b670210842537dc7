//! x

use super::*;
