//! What `tonic-build` makes of a service with two methods, `rpc Single(Text) returns (Text)` and
//! `rpc Stream(stream Text) returns (stream Text)`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::codegen::{Body, BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

pub(crate) const SINGLE: &str = "/echo.Echo/Single";
pub(crate) const STREAM: &str = "/echo.Echo/Stream";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

/// Gives back what it gets.
#[derive(Clone, Copy)]
pub(crate) struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "echo.Echo";
}

impl<B> Service<http::Request<B>> for Echo
where
    B: Body<Data = tonic::codegen::Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Text, Text>::default());
            Ok(match request.uri().path() {
                SINGLE => grpc.unary(Single, request).await,
                STREAM => grpc.streaming(Stream, request).await,
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

struct Single;

impl UnaryService<Text> for Single {
    type Response = Text;
    type Future = BoxFuture<Response<Text>, Status>;

    fn call(&mut self, request: Request<Text>) -> Self::Future {
        Box::pin(async { Ok(Response::new(request.into_inner())) })
    }
}

struct Stream;

impl StreamingService<Text> for Stream {
    type Response = Text;
    type ResponseStream = Streaming<Text>;
    type Future = BoxFuture<Response<Streaming<Text>>, Status>;

    fn call(&mut self, request: Request<Streaming<Text>>) -> Self::Future {
        Box::pin(async { Ok(Response::new(request.into_inner())) })
    }
}
