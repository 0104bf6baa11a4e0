//! Requests that show the token of a sign-in, as long as there is one.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::BytesMut;
use toolbus_proto::channel::StreamLost;
use toolbus_proto::http::{RequestHead, ResponseHead};
use toolbus_proto::mcp::http::HttpClient;
use toolbus_proto::oauth::hidden::Hidden;

use super::probe::ProbeHeard;
use crate::oauth::credential::{Credential, Verdict};
use crate::transport::http::{AnswerReader, HttpOpener, RequestWriter};
use crate::transport::io::{Opener, Reader, Source};

/// Opens streams with the token that there is then.
pub(super) struct SignedOpener {
    pub(super) http: HttpOpener,
    /// `None` where the token is fixed.
    pub(super) credential: Option<Rc<Credential>>,
    /// Who wants to know what is answered.
    pub(super) probed: Option<Rc<RefCell<ProbeHeard>>>,
}

impl Opener<HttpClient> for SignedOpener {
    type Reader = JudgedReader;
    type Writer = RequestWriter;

    async fn open(
        &self,
        mut head: RequestHead,
    ) -> Result<(JudgedReader, RequestWriter), StreamLost> {
        let mut shown = None;
        if let Some(credential) = &self.credential {
            let token = credential.token().await;
            let token = token.map_err(|failure| StreamLost { code: None, failure })?;
            if let Some(token) = &token {
                head.headers.push("Authorization", format!("Bearer {}", token.reveal()));
            }
            shown = Some((credential.clone(), token));
        }
        let (reader, writer) = self.http.begin(&head);
        let probed = self.probed.clone();
        Ok((JudgedReader { reader, shown, probed, head: None }, writer))
    }
}

/// Reads an answer once it is known what it means for the token.
pub(super) struct JudgedReader {
    reader: AnswerReader,
    shown: Option<(Rc<Credential>, Option<Hidden>)>,
    probed: Option<Rc<RefCell<ProbeHeard>>>,
    /// The head that is being judged.
    head: Option<ResponseHead>,
}

impl Reader for JudgedReader {
    type Head = ResponseHead;

    async fn head(&mut self) -> Result<ResponseHead, StreamLost> {
        if self.head.is_none() {
            self.head = Some(self.reader.head().await?);
        }
        let mut head = self.head.clone().unwrap_or_default();
        if let Some(probed) = &self.probed {
            probed.borrow_mut().take(&head);
        }
        if let Some((credential, token)) = &self.shown {
            match credential.judge(token.as_ref(), &head).await {
                Verdict::Counts => {}
                Verdict::Again => head.may_repeat = true,
                Verdict::Fails(failure) => {
                    return Err(StreamLost { code: None, failure: *failure });
                }
            }
        }
        Ok(head)
    }
}

impl Source for JudgedReader {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        self.reader.read(input).await
    }
}
