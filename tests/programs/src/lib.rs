//! What the hostile guests share: a codec that echoes text units, so that each program holds its crime and nothing else.
//! What the host does about a crime stands in the tests that load the program.

use std::marker::PhantomData;

use transom_guest::{
    Fault, FaultKind, Framing, Input, Machine, Manifest, Millis, Outputs, Setup, Unit,
};

/// What a program does instead of echoing.
pub trait Crime: Sized + 'static {
    /// Runs when a connection opens.
    fn open(_setup: &Setup) -> Result<(), Fault> {
        Ok(())
    }

    /// Runs on each unit; `None` means that the unit is echoed after all.
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>>;
}

/// What a program says of itself: the format of its state, and those that it takes up.
pub fn manifest(state_format: u32, resumes: &[u32]) -> Manifest {
    Manifest {
        protocol: "hostile".to_owned(),
        revisions: vec!["1".to_owned()],
        framings: vec![Framing::Lines],
        sends: vec!["session/*".to_owned()],
        headers: vec![],
        state_format,
        resumes: resumes.to_vec(),
    }
}

/// An echo that commits `C` when it is told to.
pub struct Program<C> {
    fault: Option<Fault>,
    crime: PhantomData<C>,
}

impl<C: Crime> Machine for Program<C> {
    fn describe() -> Manifest {
        manifest(1, &[1])
    }

    fn open(_out: &mut Outputs, setup: Setup) -> Result<Self, Fault> {
        C::open(&setup)?;
        Ok(Program { fault: None, crime: PhantomData })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let Input::Unit(Unit { bytes, .. }) = input else { return Ok(()) };
        let text = String::from_utf8_lossy(&bytes);
        let done = C::unit(out, &text).unwrap_or_else(|| {
            out.unit(bytes.clone());
            Ok(())
        });
        self.fault = done.clone().err();
        done
    }

    fn suspend(&self) -> Vec<u8> {
        Vec::new()
    }

    fn resume(setup: Setup, format: u32, _state: &[u8]) -> Result<Self, Fault> {
        if format != 1 {
            return Err(Fault::new(FaultKind::Unsupported, "not a state of this program"));
        }
        C::open(&setup)?;
        Ok(Program { fault: None, crime: PhantomData })
    }
}

/// The number behind `word`, as in `flood 1000`.
pub fn amount(text: &str, word: &str) -> Option<usize> {
    text.strip_prefix(word)?.trim().parse().ok()
}
