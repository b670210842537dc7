//! A codec source that never keeps an instance: between every two inputs the codec is suspended and another is
//! resumed from its state. A conversation must not notice.

use std::sync::Arc;

use transom_connection::codec::{
    Codec, CodecError, CodecSource, Input, Manifest, Millis, Output, Setup,
};

/// Moves every connection of the source below it, all the time.
pub struct Restless(Arc<dyn CodecSource>);

struct Moving {
    source: Arc<dyn CodecSource>,
    setup: Setup,
    codec: Box<dyn Codec>,
    /// A host never moves a connection that failed.
    failed: bool,
}

impl Restless {
    /// The same source, but restless.
    pub fn source(source: Arc<dyn CodecSource>) -> Arc<dyn CodecSource> {
        Arc::new(Restless(source))
    }

    fn moving(&self, setup: &Setup, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Moving { source: Arc::clone(&self.0), setup: setup.clone(), codec, failed: false })
    }
}

impl CodecSource for Restless {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn identity(&self) -> Arc<str> {
        format!("{}, restless", self.0.identity()).into()
    }

    fn open(&self, setup: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        let (codec, outputs) = self.0.open(setup)?;
        Ok((self.moving(setup, codec), outputs))
    }

    fn resume(
        &self,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError> {
        Ok(self.moving(setup, self.0.resume(setup, format, state)?))
    }
}

impl Codec for Moving {
    fn handle(&mut self, now: Millis, input: Input) -> Result<Vec<Output>, CodecError> {
        if !self.failed {
            let state = self.codec.suspend()?;
            let format = self.source.manifest().state_format;
            self.codec = self.source.resume(&self.setup, format, &state)?;
        }
        let outputs = self.codec.handle(now, input);
        self.failed |= outputs.is_err();
        outputs
    }

    fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
        self.codec.suspend()
    }

    fn memory_bytes(&self) -> u64 {
        self.codec.memory_bytes()
    }
}
