//! turmoil's example grpc: a service of tonic, and its client.

use tonic::transport::{Error, Server};
use tonic::{Request, Response, Status};

use self::greeter_client::GreeterClient;
use self::greeter_server::{Greeter, GreeterServer};
use super::{SECOND, legal};

include!(concat!(env!("OUT_DIR"), "/helloworld.Greeter.rs"));

#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloRequest {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloReply {
    #[prost(string, tag = "1")]
    message: String,
}

struct MyGreeter;

#[tonic::async_trait]
impl Greeter for MyGreeter {
    async fn say_hello(
        &self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloReply>, Status> {
        let message = format!("Hello {}!", request.into_inner().name);
        Ok(Response::new(HelloReply { message }))
    }
}

async fn greet() -> Result<(), Error> {
    let address = ([0, 0, 0, 0], 9999).into();
    Server::builder().add_service(GreeterServer::new(MyGreeter)).serve(address).await
}

#[test]
fn greets() {
    legal().run(|net| async move {
        net.host("server", greet);
        let client = net.client("client", || async {
            tokio::time::sleep(SECOND).await;
            let mut greeter = GreeterClient::connect("http://server:9999").await.unwrap();
            let request = Request::new(HelloRequest { name: "foo".into() });
            let reply = greeter.say_hello(request).await.unwrap();
            assert_eq!(reply.into_inner().message, "Hello foo!");
        });
        client.ended().await
    });
}
