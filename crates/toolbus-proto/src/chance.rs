//! Where chance comes from, for wires that need what their peers cannot foresee.

/// Gives bytes that cannot be foreseen: outside of tests the operating system's generator.
pub trait Random {
    /// Fills `bytes` with what cannot be foreseen.
    fn fill(&mut self, bytes: &mut [u8]);
}

impl<F: FnMut(&mut [u8])> Random for F {
    fn fill(&mut self, bytes: &mut [u8]) {
        self(bytes);
    }
}
