//! Locations of stores, as operators write them.
//!
//! The shown form of a location can be read again and means the same. The shown form is one line,
//! and reveals no password.

#![no_main]

use duality_services::store::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(written) = std::str::from_utf8(bytes) else { return };
    let location: Location = match written.parse() {
        Ok(location) => location,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    let shown = location.to_string();
    assert!(!shown.contains('\n') && shown == format!("{location:?}"));
    let again: Location = shown.parse().expect("what is shown is a location");
    match (&location, &again) {
        (
            Location::Redis { host, port, database, user, password },
            Location::Redis {
                host: host2,
                port: port2,
                database: database2,
                user: user2,
                password: password2,
            },
        ) => {
            assert_eq!((host, port, database), (host2, port2, database2));
            assert_eq!(password2.as_deref(), password.as_ref().map(|_| "***"));
            // A location without a password has no user.
            assert!(user == user2 || password.is_none());
        }
        _ => assert_eq!(location, again),
    }
});
